// Every program of a Kubernetes cluster in one binary, so that it is compiled, linked and cached once.
//
// The program to run is the name it was started by (a link called kubectl is kubectl), else the first argument.
package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

var programs = map[string]func(){
	"coredns":                 coredns,
	"etcd":                    etcd,
	"kube-apiserver":          apiServer,
	"kube-controller-manager": controllerManager,
	"kube-proxy":              proxy,
	"kube-scheduler":          scheduler,
	"kubectl":                 kubectl,
	"kubelet":                 kubelet,
}

func main() {
	if program, known := programs[filepath.Base(os.Args[0])]; known {
		program()
		return
	}
	if len(os.Args) > 1 {
		if program, known := programs[os.Args[1]]; known {
			// The programs read os.Args themselves and must find their own name in front.
			os.Args = os.Args[1:]
			program()
			return
		}
	}
	names := slices.Sorted(maps.Keys(programs))
	fmt.Fprintf(os.Stderr, "usage: kubernetes %s [arguments]\n", strings.Join(names, "|"))
	os.Exit(2)
}
