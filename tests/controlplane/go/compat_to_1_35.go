//go:build k8s1_34 || k8s1_35

package main

import (
	"crypto/tls"

	"k8s.io/apimachinery/pkg/runtime"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/component-base/configz"
	"k8s.io/kubernetes/pkg/kubelet/server"
)

func setConfig(published *configz.Config, value runtime.Object) error {
	published.Set(value)
	return nil
}

func servingTLS(certFile, keyFile, clientCA string) (*server.TLSOptions, error) {
	pool, err := certutil.NewPool(clientCA)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequestClientCert, ClientCAs: pool}
	return &server.TLSOptions{Config: config, CertFile: certFile, KeyFile: keyFile}, nil
}
