package main

import (
	"context"
	"os"
	_ "time/tzdata" // CronJobs may name a time zone, and the machine may have no zone files.

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserverapp "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanagerapp "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxyapp "k8s.io/kubernetes/cmd/kube-proxy/app"
	schedulerapp "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubeletapp "k8s.io/kubernetes/cmd/kubelet/app"
)

func apiServer()         { run(apiserverapp.NewAPIServerCommand()) }
func controllerManager() { run(controllermanagerapp.NewControllerManagerCommand()) }
func scheduler()         { run(schedulerapp.NewSchedulerCommand()) }
func kubelet()           { run(kubeletapp.NewKubeletCommand(context.Background())) }
func proxy()             { run(proxyapp.NewProxyCommand()) }

func run(command *cobra.Command) {
	os.Exit(cli.Run(command))
}
