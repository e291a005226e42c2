package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/version"
	"k8s.io/klog/v2"
	_ "k8s.io/kubernetes/pkg/features"
)

// gateStage is one entry of a gate's history: from Version on, the gate has this default, stage and lock.
type gateStage struct {
	Version       string `json:"version"`
	Default       bool   `json:"default"`
	LockToDefault bool   `json:"lockToDefault"`
	PreRelease    string `json:"preRelease"`
	MinCompat     string `json:"minCompatibilityVersion,omitempty"`
}

type gateData struct {
	Stages       []gateStage           `json:"stages"`
	Dependencies []featuregate.Feature `json:"dependencies,omitempty"`
	// Overrides are the defaults that one component changes for itself: component, version of the stage, default.
	Overrides map[string]map[string]bool `json:"overrides,omitempty"`
}

// kubedata is what the linked release knows about itself.
type kubedata struct {
	Version string                            `json:"version"`
	Gates   map[featuregate.Feature]*gateData `json:"gates"`
	APIs    apiData                           `json:"apis"`
	Flags   map[string]map[string]flagData    `json:"flags"`
	Kubeadm kubeadmData                       `json:"kubeadm"`
}

// kubedataMain prints it as JSON.
func kubedataMain() int {
	// Every gate is set below, and each setting would be warned of.
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	data := kubedata{Version: version.Get().GitVersion, Gates: gates()}
	// Building the commands may override defaults, so that the order matters.
	var err error
	if data.Flags, err = flags(func(component string) { addOverrides(data.Gates, component) }); err != nil {
		fmt.Fprintln(os.Stderr, "flags:", err)
		return 1
	}
	data.Kubeadm = kubeadmFacts(version.Get().GitVersion)
	if data.APIs, err = apis(); err != nil {
		fmt.Fprintln(os.Stderr, "apis:", err)
		return 1
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(data); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func gates() map[featuregate.Feature]*gateData {
	found := map[featuregate.Feature]*gateData{}
	dependencies := map[featuregate.Feature][]featuregate.Feature{}
	// Gates know their dependencies from 1.35 on.
	if gates, ok := utilfeature.DefaultMutableFeatureGate.(interface {
		Dependencies() map[featuregate.Feature][]featuregate.Feature
	}); ok {
		dependencies = gates.Dependencies()
	}
	for name, specs := range utilfeature.DefaultMutableFeatureGate.GetAllVersioned() {
		gate := &gateData{Dependencies: slices.Clone(dependencies[name])}
		for _, spec := range specs {
			stage := string(spec.PreRelease)
			if spec.PreRelease == featuregate.GA {
				stage = "GA"
			}
			gate.Stages = append(gate.Stages, gateStage{
				Version: spec.Version.String(), Default: spec.Default, LockToDefault: spec.LockToDefault, PreRelease: stage,
				MinCompat: minCompatibility(spec),
			})
		}
		found[name] = gate
	}
	return found
}

// minCompatibility reads a field that the type has from 1.35 on.
func minCompatibility(spec featuregate.FeatureSpec) string {
	field := reflect.ValueOf(spec).FieldByName("MinCompatibilityVersion")
	if !field.IsValid() || field.IsNil() {
		return ""
	}
	return field.Interface().(fmt.Stringer).String()
}

// addOverrides notes the defaults that differ from those first seen, as defaults of this component.
func addOverrides(known map[featuregate.Feature]*gateData, component string) {
	for name, specs := range utilfeature.DefaultMutableFeatureGate.GetAllVersioned() {
		gate := known[name]
		if gate == nil {
			continue
		}
		for i, spec := range specs {
			if spec.Default == gate.Stages[i].Default {
				continue
			}
			if gate.Overrides == nil {
				gate.Overrides = map[string]map[string]bool{}
			}
			if gate.Overrides[component] == nil {
				gate.Overrides[component] = map[string]bool{}
			}
			gate.Overrides[component][spec.Version.String()] = spec.Default
		}
	}
}
