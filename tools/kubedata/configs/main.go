// Prints the configuration files that kubelet, kube-proxy and kube-scheduler of the linked release read, as JSON: what
// their own schemes have registered, and every field of each type by reflection.
//
// It is run by tools/kubedata/generate.py with the pinned modules of tests/controlplane/go.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubeletscheme "k8s.io/kubernetes/pkg/kubelet/apis/config/scheme"
	proxyscheme "k8s.io/kubernetes/pkg/proxy/apis/config/scheme"
	schedulerscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
)

type kind struct {
	Kind     string                       `json:"kind"`
	Versions map[string]map[string]string `json:"versions"`
}

var (
	unmarshaler = reflect.TypeFor[json.Unmarshaler]()
	duration    = reflect.TypeFor[metav1.Duration]()
)

func main() {
	kubelet, _, err := kubeletscheme.NewSchemeAndCodecs()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	told := map[string]*kind{
		"kubelet":        read(kubelet, "kubelet.config.k8s.io", "KubeletConfiguration"),
		"kube-proxy":     read(proxyscheme.Scheme, "kubeproxy.config.k8s.io", "KubeProxyConfiguration"),
		"kube-scheduler": read(schedulerscheme.Scheme, "kubescheduler.config.k8s.io", "KubeSchedulerConfiguration"),
	}
	if err := json.NewEncoder(os.Stdout).Encode(told); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// read collects the versions of a kind that a scheme decodes.
func read(scheme *runtime.Scheme, group, name string) *kind {
	found := &kind{Kind: name, Versions: map[string]map[string]string{}}
	for gvk, typ := range scheme.AllKnownTypes() {
		if gvk.Group != group || gvk.Kind != name || gvk.Version == runtime.APIVersionInternal {
			continue
		}
		fields := map[string]string{}
		walk(typ, "", fields, nil)
		found.Versions[gvk.GroupVersion().String()] = fields
	}
	return found
}

// walk notes the type of what JSON has at each path: `a.b` for a field, `a[]` for what a list holds, `a{}` for a map.
func walk(typ reflect.Type, path string, fields map[string]string, above []reflect.Type) {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if slices.Contains(above, typ) {
		fields[path] = "any"
		return
	}
	above = append(slices.Clone(above), typ)
	note := func(name string) {
		if path != "" {
			fields[path] = name
		}
	}
	switch {
	case typ == duration:
		note("duration")
	case reflect.PointerTo(typ).Implements(unmarshaler):
		// It reads itself: a quantity, a time, a number or a word …
		note("any")
	default:
		switch typ.Kind() {
		case reflect.Struct:
			note("object")
			members(typ, path, fields, above)
		case reflect.Slice, reflect.Array:
			if typ.Elem().Kind() == reflect.Uint8 {
				note("any")
				return
			}
			note("list")
			walk(typ.Elem(), path+"[]", fields, above)
		case reflect.Map:
			note("map")
			walk(typ.Elem(), path+"{}", fields, above)
		case reflect.Interface:
			note("any")
		default:
			note(typ.Kind().String())
		}
	}
}

func members(typ reflect.Type, path string, fields map[string]string, above []reflect.Type) {
	for i := range typ.NumField() {
		field := typ.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "-" || !field.IsExported() {
			continue
		}
		if name == "" && (field.Anonymous || strings.Contains(options, "inline")) {
			inner := field.Type
			for inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			if inner == reflect.TypeFor[metav1.TypeMeta]() {
				continue
			}
			members(inner, path, fields, above)
			continue
		}
		if name == "" {
			name = field.Name
		}
		if path != "" {
			name = path + "." + name
		}
		walk(field.Type, name, fields, above)
	}
}
