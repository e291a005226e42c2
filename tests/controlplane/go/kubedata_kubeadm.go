package main

import (
	"fmt"

	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	kubeadmscheme "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm/scheme"
	"k8s.io/kubernetes/cmd/kubeadm/app/constants"
	"k8s.io/kubernetes/cmd/kubeadm/app/features"
)

type kubeadmGate struct {
	Default     bool   `json:"default"`
	Lock        bool   `json:"lockToDefault,omitempty"`
	PreRelease  string `json:"preRelease"`
	Deprecation string `json:"deprecation,omitempty"`
}

type kubeadmData struct {
	Etcd                string                 `json:"etcd"`
	EtcdFor             map[string]string      `json:"etcdFor"`
	EtcdMinimum         string                 `json:"etcdMinimum"`
	CoreDNS             string                 `json:"coredns"`
	Pause               string                 `json:"pause"`
	APIVersions         []string               `json:"apiVersions"`
	Gates               map[string]kubeadmGate `json:"gates"`
	MinimumKubelet      string                 `json:"minimumKubelet"`
	MinimumControlPlane string                 `json:"minimumControlPlane"`
}

func kubeadmFacts(release string) kubeadmData {
	data := kubeadmData{
		Etcd: constants.DefaultEtcdVersion, EtcdMinimum: constants.MinExternalEtcdVersion,
		CoreDNS: constants.CoreDNSVersion, Pause: constants.PauseVersion,
		MinimumKubelet:      constants.MinimumKubeletVersion.String(),
		MinimumControlPlane: constants.MinimumControlPlaneVersion.String(),
		EtcdFor:             map[string]string{}, Gates: map[string]kubeadmGate{},
	}
	for minor, tag := range constants.SupportedEtcdVersion {
		data.EtcdFor[fmt.Sprintf("1.%d", minor)] = tag
	}
	for name, gate := range features.InitFeatureGates {
		stage := string(gate.PreRelease)
		if gate.PreRelease == featuregate.GA {
			stage = "GA"
		}
		data.Gates[name] = kubeadmGate{
			Default: gate.Default, Lock: gate.LockToDefault, PreRelease: stage, Deprecation: gate.DeprecationMessage,
		}
	}
	// Lowest priority first, as they came.
	versions := kubeadmscheme.Scheme.PrioritizedVersionsForGroup(kubeadm.GroupName)
	for i := len(versions) - 1; i >= 0; i-- {
		data.APIVersions = append(data.APIVersions, versions[i].Version)
	}
	return data
}
