//go:build k8s1_34 || k8s1_35

package main

import (
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	resourcerest "k8s.io/kubernetes/pkg/registry/resource/rest"
)

func resourceProvider(namespaces corev1client.NamespaceInterface) storageProvider {
	return resourcerest.RESTStorageProvider{NamespaceClient: namespaces}
}
