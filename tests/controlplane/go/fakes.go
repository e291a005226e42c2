package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	apitest "k8s.io/cri-api/pkg/apis/testing"
)

// endingRuntime is the fake runtime, except that two kinds of containers end: `pause -v`, which prints its version (the
// Job of kubeadm's health check runs it), and those whose real process is reported to have ended (see watchEnds).
type endingRuntime struct {
	*apitest.FakeRuntimeService
	mutex sync.Mutex
	brief map[string]bool
}

func (r *endingRuntime) CreateContainer(ctx context.Context, sandbox string, config *runtimeapi.ContainerConfig, sandboxConfig *runtimeapi.PodSandboxConfig) (string, error) {
	id, err := r.FakeRuntimeService.CreateContainer(ctx, sandbox, config, sandboxConfig)
	if err == nil && len(config.Command) == 0 && slices.Equal(config.Args, []string{"-v"}) && strings.Contains(config.Image.GetImage(), "pause") {
		r.mutex.Lock()
		defer r.mutex.Unlock()
		r.brief[id] = true
	}
	return id, err
}

func (r *endingRuntime) StartContainer(ctx context.Context, id string) error {
	if err := r.FakeRuntimeService.StartContainer(ctx, id); err != nil {
		return err
	}
	r.mutex.Lock()
	brief := r.brief[id]
	r.mutex.Unlock()
	if brief {
		r.end(func(container *apitest.FakeContainer) bool { return container.Id == id }, 0)
	}
	return nil
}

func (r *endingRuntime) end(chosen func(*apitest.FakeContainer) bool, code int32) {
	r.Lock()
	defer r.Unlock()
	for _, container := range r.Containers {
		if container.State != runtimeapi.ContainerState_CONTAINER_RUNNING || !chosen(container) {
			continue
		}
		container.State = runtimeapi.ContainerState_CONTAINER_EXITED
		container.FinishedAt = time.Now().UnixNano()
		container.ExitCode = code
		container.Reason = "Completed"
		if code != 0 {
			container.Reason = "Error"
		}
	}
}

// watchEnds ends the running container NAME when a file NAME with an exit code is in folder, and removes the file.
func (r *endingRuntime) watchEnds(ctx context.Context, folder string) {
	for ctx.Err() == nil {
		entries, err := os.ReadDir(folder)
		if err != nil {
			entries = nil
		}
		for _, entry := range entries {
			path := filepath.Join(folder, entry.Name())
			text, err := os.ReadFile(path)
			if err != nil {
				continue
			}
			code, err := strconv.Atoi(strings.TrimSpace(string(text)))
			if err != nil {
				continue
			}
			r.end(func(container *apitest.FakeContainer) bool { return container.Metadata.GetName() == entry.Name() }, int32(code))
			_ = os.Remove(path)
		}
		time.Sleep(200 * time.Millisecond)
	}
}
