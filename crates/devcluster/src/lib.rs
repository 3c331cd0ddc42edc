//! A real multi-node Kubernetes on one machine, for demos, tests and benchmarks.
