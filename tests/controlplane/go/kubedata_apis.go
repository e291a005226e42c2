package main

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	apiextensionsserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serveroptions "k8s.io/apiserver/pkg/server/options"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	apistorage "k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	storagefactory "k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
	aggregatorserver "k8s.io/kube-aggregator/pkg/apiserver"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/controlplane"
	"k8s.io/kubernetes/pkg/kubeapiserver"
	admissionregistrationrest "k8s.io/kubernetes/pkg/registry/admissionregistration/rest"
	apiserverinternalrest "k8s.io/kubernetes/pkg/registry/apiserverinternal/rest"
	appsrest "k8s.io/kubernetes/pkg/registry/apps/rest"
	authenticationrest "k8s.io/kubernetes/pkg/registry/authentication/rest"
	authorizationrest "k8s.io/kubernetes/pkg/registry/authorization/rest"
	autoscalingrest "k8s.io/kubernetes/pkg/registry/autoscaling/rest"
	batchrest "k8s.io/kubernetes/pkg/registry/batch/rest"
	certificatesrest "k8s.io/kubernetes/pkg/registry/certificates/rest"
	coordinationrest "k8s.io/kubernetes/pkg/registry/coordination/rest"
	discoveryrest "k8s.io/kubernetes/pkg/registry/discovery/rest"
	eventsrest "k8s.io/kubernetes/pkg/registry/events/rest"
	flowcontrolrest "k8s.io/kubernetes/pkg/registry/flowcontrol/rest"
	networkingrest "k8s.io/kubernetes/pkg/registry/networking/rest"
	noderest "k8s.io/kubernetes/pkg/registry/node/rest"
	policyrest "k8s.io/kubernetes/pkg/registry/policy/rest"
	rbacrest "k8s.io/kubernetes/pkg/registry/rbac/rest"
	schedulingrest "k8s.io/kubernetes/pkg/registry/scheduling/rest"
	storagerest "k8s.io/kubernetes/pkg/registry/storage/rest"
	svmrest "k8s.io/kubernetes/pkg/registry/storagemigration/rest"
)

type kindData struct {
	Group       string `json:"group"`
	Version     string `json:"version"`
	Kind        string `json:"kind"`
	Introduced  string `json:"introduced,omitempty"`
	Deprecated  string `json:"deprecated,omitempty"`
	Removed     string `json:"removed,omitempty"`
	Replacement string `json:"replacement,omitempty"`
}

type resourceData struct {
	Group      string   `json:"group"`
	Version    string   `json:"version"`
	Resource   string   `json:"resource"`
	Kind       string   `json:"kind"`
	Namespaced bool     `json:"namespaced"`
	Gates      []string `json:"gates,omitempty"`
}

type apiData struct {
	// Groups are the registered versions of each group, the preferred one first.
	Groups map[string][]string `json:"groups"`
	// Kinds are the registered types that state a lifecycle or are kinds of a resource.
	Kinds []kindData `json:"kinds"`
	// Resources are what the storage providers of the apiserver offer, apart from the core group.
	Resources []resourceData `json:"resources"`
	// EnabledVersions and EnabledResources are the defaults that --runtime-config changes.
	EnabledVersions  map[string]bool `json:"enabledVersions"`
	EnabledResources map[string]bool `json:"enabledResources"`
	// Storage is the version that each kind is written to etcd in, by "group/Kind".
	Storage map[string]string `json:"storage"`
	// StorageOverrides are the resources whose version is fixed whatever is emulated, by "group/resource".
	StorageOverrides map[string]string `json:"storageOverrides"`
}

type introduced interface{ APILifecycleIntroduced() (major, minor int) }
type deprecated interface{ APILifecycleDeprecated() (major, minor int) }
type removed interface{ APILifecycleRemoved() (major, minor int) }
type replaced interface {
	APILifecycleReplacement() schema.GroupVersionKind
}

func apis() (apiData, error) {
	data := apiData{
		Groups: map[string][]string{}, EnabledVersions: map[string]bool{}, EnabledResources: map[string]bool{},
		Storage: map[string]string{}, StorageOverrides: map[string]string{},
	}
	for _, scheme := range []*runtime.Scheme{legacyscheme.Scheme, apiextensionsserver.Scheme, aggregatorscheme.Scheme} {
		data.addScheme(scheme)
	}
	for _, config := range []*serverstorage.ResourceConfig{
		controlplane.DefaultAPIResourceConfigSource(), apiextensionsserver.DefaultAPIResourceConfigSource(),
		aggregatorserver.DefaultAPIResourceConfigSource(),
	} {
		for gv, enabled := range config.GroupVersionConfigs {
			data.EnabledVersions[gv.String()] = enabled
		}
		for gvr, enabled := range config.ResourceConfigs {
			data.EnabledResources[gvr.GroupVersion().String()+"/"+gvr.Resource] = enabled
		}
	}
	if err := data.addStorage(); err != nil {
		return data, err
	}
	if err := data.addResources(); err != nil {
		return data, err
	}
	sort.Slice(data.Kinds, func(i, j int) bool {
		a, b := data.Kinds[i], data.Kinds[j]
		return a.Group+"/"+a.Version+"/"+a.Kind < b.Group+"/"+b.Version+"/"+b.Kind
	})
	sort.Slice(data.Resources, func(i, j int) bool {
		a, b := data.Resources[i], data.Resources[j]
		return a.Group+"/"+a.Version+"/"+a.Resource < b.Group+"/"+b.Version+"/"+b.Resource
	})
	return data, nil
}

func (d *apiData) addScheme(scheme *runtime.Scheme) {
	for _, gv := range scheme.PrioritizedVersionsAllGroups() {
		if !slices.Contains(d.Groups[gv.Group], gv.Version) {
			d.Groups[gv.Group] = append(d.Groups[gv.Group], gv.Version)
		}
	}
	known := map[string]bool{}
	for _, kind := range d.Kinds {
		known[kind.Group+"/"+kind.Version+"/"+kind.Kind] = true
	}
	for gvk := range scheme.AllKnownTypes() {
		if gvk.Version == runtime.APIVersionInternal || known[gvk.GroupVersion().String()+"/"+gvk.Kind] {
			continue
		}
		if strings.HasSuffix(gvk.Kind, "Options") || strings.HasSuffix(gvk.Kind, "List") || gvk.Kind == "WatchEvent" || gvk.Version == "" {
			continue
		}
		object, err := scheme.New(gvk)
		if err != nil {
			continue
		}
		kind := kindData{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind}
		if o, ok := object.(introduced); ok {
			kind.Introduced = minorText(o.APILifecycleIntroduced())
		}
		if o, ok := object.(deprecated); ok {
			kind.Deprecated = minorText(o.APILifecycleDeprecated())
		}
		if o, ok := object.(removed); ok {
			kind.Removed = minorText(o.APILifecycleRemoved())
		}
		if o, ok := object.(replaced); ok {
			to := o.APILifecycleReplacement()
			if to.Kind != "" {
				kind.Replacement = to.GroupVersion().String() + "/" + to.Kind
			}
		}
		d.Kinds = append(d.Kinds, kind)
	}
}

func minorText(major, minor int) string { return fmt.Sprintf("%d.%d", major, minor) }

// addStorage asks the storage factory of the apiserver, at its default effective version.
func (d *apiData) addStorage() error {
	effective := compatibility.DefaultComponentGlobalsRegistry.EffectiveVersionFor(basecompatibility.DefaultKubeComponent)
	config := kubeapiserver.NewStorageFactoryConfigEffectiveVersion(effective)
	config.APIResourceConfig = controlplane.DefaultAPIResourceConfigSource()
	for _, override := range config.ResourceEncodingOverrides {
		d.StorageOverrides[override.GroupResource().Group+"/"+override.Resource] = override.GroupVersion().String()
	}
	options := serveroptions.NewEtcdOptions(storagebackend.NewDefaultConfig("/registry", nil))
	factory, err := config.Complete(options).New()
	if err != nil {
		return err
	}
	for gvk := range legacyscheme.Scheme.AllKnownTypes() {
		if gvk.Version != runtime.APIVersionInternal {
			continue
		}
		if !slices.ContainsFunc(d.Kinds, func(kind kindData) bool { return kind.Group == gvk.Group && kind.Kind == gvk.Kind }) {
			continue
		}
		object, err := legacyscheme.Scheme.New(gvk)
		if err != nil {
			return err
		}
		stored, err := factory.NewConfig(schema.GroupResource{Group: gvk.Group, Resource: plural(gvk.Kind)}, object)
		if err != nil {
			continue
		}
		var kinds []schema.GroupVersionKind
		for _, version := range legacyscheme.Scheme.PrioritizedVersionsForGroup(gvk.Group) {
			if legacyscheme.Scheme.Recognizes(version.WithKind(gvk.Kind)) {
				kinds = append(kinds, version.WithKind(gvk.Kind))
			}
		}
		// Events of both groups are written as those of the core group.
		if gvk.Kind == "Event" {
			kinds = append(kinds, schema.GroupVersionKind{Version: "v1", Kind: "Event"})
		}
		if target, ok := stored.EncodeVersioner.KindForGroupVersionKinds(kinds); ok {
			d.Storage[gvk.Group+"/"+gvk.Kind] = target.GroupVersion().String()
		}
	}
	return nil
}

func plural(kind string) string {
	lower := strings.ToLower(kind)
	switch {
	case strings.HasSuffix(lower, "endpoints"):
		return lower
	case strings.HasSuffix(lower, "s"), strings.HasSuffix(lower, "x"):
		return lower + "es"
	case strings.HasSuffix(lower, "y"):
		return strings.TrimSuffix(lower, "y") + "ies"
	}
	return lower + "s"
}

func providers() []storageProvider {
	return append([]storageProvider{
		apiserverinternalrest.StorageProvider{},
		authenticationrest.RESTStorageProvider{},
		authorizationrest.RESTStorageProvider{Authorizer: authorizerfactory.NewAlwaysDenyAuthorizer()},
		autoscalingrest.RESTStorageProvider{},
		batchrest.RESTStorageProvider{},
		certificatesrest.RESTStorageProvider{Authorizer: authorizerfactory.NewAlwaysDenyAuthorizer()},
		coordinationrest.RESTStorageProvider{},
		discoveryrest.StorageProvider{},
		networkingrest.RESTStorageProvider{},
		noderest.RESTStorageProvider{},
		policyrest.RESTStorageProvider{},
		rbacrest.RESTStorageProvider{},
		schedulingrest.RESTStorageProvider{},
		storagerest.RESTStorageProvider{},
		svmrest.RESTStorageProvider{},
		flowcontrolrest.RESTStorageProvider{},
		appsrest.StorageProvider{},
		admissionregistrationrest.RESTStorageProvider{},
		eventsrest.RESTStorageProvider{},
		resourceProvider(kubernetes.NewForConfigOrDie(&restclient.Config{Host: "https://127.0.0.1:1"}).CoreV1().Namespaces()),
	}, newProviders()...)
}

type storageProvider interface {
	GroupName() string
	NewRESTStorage(serverstorage.APIResourceConfigSource, generic.RESTOptionsGetter) (genericapiserver.APIGroupInfo, error)
}

// everything takes every API for enabled.
type everything struct{ serverstorage.ResourceConfig }

func (everything) ResourceEnabled(schema.GroupVersionResource) bool           { return true }
func (everything) AnyResourceForGroupEnabled(string) bool                     { return true }
func (everything) VersionExplicitlyEnabled(schema.GroupVersion) bool          { return true }
func (everything) ResourceExplicitlyEnabled(schema.GroupVersionResource) bool { return true }

// nowhere is storage without a backend: the providers are only asked what they would serve.
type nowhere struct{}

func (nowhere) GetRESTOptions(resource schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	return generic.RESTOptions{
		StorageConfig:  &storagebackend.ConfigForResource{GroupResource: resource},
		ResourcePrefix: resource.Group + "/" + resource.Resource,
		Decorator: func(*storagebackend.ConfigForResource, string, func(runtime.Object) (string, error), func() runtime.Object,
			func() runtime.Object, apistorage.AttrFunc, apistorage.IndexerFuncs, *cache.Indexers,
		) (apistorage.Interface, storagefactory.DestroyFunc, error) {
			return nil, func() {}, nil
		},
	}, nil
}

// addResources asks the storage providers with every API enabled and every gate on, then with each gate off.
func (d *apiData) addResources() error {
	gates := utilfeature.DefaultMutableFeatureGate
	on := map[string]bool{}
	for name, spec := range gates.GetAll() {
		if !spec.LockToDefault && name != "AllAlpha" && name != "AllBeta" {
			on[string(name)] = true
		}
	}
	if err := gates.SetFromMap(on); err != nil {
		return err
	}
	all, err := provided()
	if err != nil {
		return err
	}
	without := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(on)) {
		off := maps.Clone(on)
		disable(off, name)
		if err := gates.SetFromMap(off); err != nil {
			return fmt.Errorf("without %s: %w", name, err)
		}
		rest, err := provided()
		if err != nil {
			return fmt.Errorf("without %s: %w", name, err)
		}
		for key := range all {
			if _, found := rest[key]; !found {
				without[key] = append(without[key], name)
			}
		}
	}
	if err := gates.SetFromMap(on); err != nil {
		return err
	}
	for key, resource := range all {
		resource.Gates = without[key]
		d.Resources = append(d.Resources, resource)
	}
	return nil
}

// disable turns a gate off, and with it what depends on it.
func disable(gates map[string]bool, name string) {
	gates[name] = false
	known, ok := utilfeature.DefaultMutableFeatureGate.(interface {
		Dependencies() map[featuregate.Feature][]featuregate.Feature
	})
	if !ok {
		return
	}
	for dependent, needs := range known.Dependencies() {
		if gates[string(dependent)] && slices.Contains(needs, featuregate.Feature(name)) {
			disable(gates, string(dependent))
		}
	}
}

func provided() (map[string]resourceData, error) {
	found := map[string]resourceData{}
	for _, provider := range providers() {
		info, err := provider.NewRESTStorage(everything{}, nowhere{})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", provider.GroupName(), err)
		}
		for version, resources := range info.VersionedResourcesStorageMap {
			for name, storage := range resources {
				if strings.Contains(name, "/") {
					continue
				}
				resource := resourceData{Group: provider.GroupName(), Version: version, Resource: name}
				if scoper, ok := storage.(rest.Scoper); ok {
					resource.Namespaced = scoper.NamespaceScoped()
				}
				kinds, _, err := info.Scheme.ObjectKinds(storage.New())
				if err != nil {
					return nil, fmt.Errorf("%s: %w", name, err)
				}
				for _, kind := range kinds {
					if kind.Group == provider.GroupName() {
						resource.Kind = kind.Kind
					}
				}
				found[resource.Group+"/"+version+"/"+name] = resource
			}
		}
	}
	return found, nil
}
