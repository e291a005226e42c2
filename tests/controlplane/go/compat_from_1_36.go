//go:build !k8s1_34 && !k8s1_35

package main

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/configz"
	"k8s.io/kubernetes/pkg/kubelet/server"
)

func setConfig(published *configz.Config, value runtime.Object) error { return published.Set(value) }

func servingTLS(certFile, keyFile, clientCA string) (*server.TLSOptions, error) {
	return &server.TLSOptions{CertFile: certFile, KeyFile: keyFile, ClientCAFile: clientCA}, nil
}
