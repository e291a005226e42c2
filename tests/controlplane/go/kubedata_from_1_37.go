//go:build !k8s1_34 && !k8s1_35 && !k8s1_36

package main

import lifecyclerest "k8s.io/kubernetes/pkg/registry/lifecycle/rest"

func newProviders() []storageProvider { return []storageProvider{lifecyclerest.RESTStorageProvider{}} }
