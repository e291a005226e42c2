package main

import (
	"encoding/json"
	"fmt"
	"os"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/version"
	_ "k8s.io/kubernetes/pkg/features"
)

// gateStage is one entry of a gate's history: from Version on, the gate has this default, stage and lock.
type gateStage struct {
	Version       string `json:"version"`
	Default       bool   `json:"default"`
	LockToDefault bool   `json:"lockToDefault"`
	PreRelease    string `json:"preRelease"`
}

type gateData struct {
	Stages       []gateStage           `json:"stages"`
	Dependencies []featuregate.Feature `json:"dependencies,omitempty"`
}

type kubedata struct {
	Version string                            `json:"version"`
	Gates   map[featuregate.Feature]*gateData `json:"gates"`
}

// kubedataMain prints what the linked release knows about itself, as JSON.
func kubedataMain() int {
	data := kubedata{Version: version.Get().GitVersion, Gates: map[featuregate.Feature]*gateData{}}
	dependencies := map[featuregate.Feature][]featuregate.Feature{}
	// Gates know their dependencies from 1.35 on.
	if gates, ok := utilfeature.DefaultMutableFeatureGate.(interface {
		Dependencies() map[featuregate.Feature][]featuregate.Feature
	}); ok {
		dependencies = gates.Dependencies()
	}
	for name, specs := range utilfeature.DefaultMutableFeatureGate.GetAllVersioned() {
		gate := &gateData{Dependencies: dependencies[name]}
		for _, spec := range specs {
			stage := string(spec.PreRelease)
			if spec.PreRelease == featuregate.GA {
				stage = "GA"
			}
			gate.Stages = append(gate.Stages, gateStage{
				Version: spec.Version.String(), Default: spec.Default, LockToDefault: spec.LockToDefault, PreRelease: stage,
			})
		}
		data.Gates[name] = gate
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(data); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
