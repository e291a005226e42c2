// Marks the module root only. The modules that are built are k8s-VERSION.mod, one a Kubernetes version
// (go build -modfile); see ../README.md.
module changegen.test/controlplane

go 1.26.0
