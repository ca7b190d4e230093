package main

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestDeploy: vkc serve accepts the command lines in deploy/, and Kubernetes the manifest.
func TestDeploy(t *testing.T) {
	var lines [][]string
	for line := range strings.Lines(readFile(t, "../../deploy/Dockerfile")) {
		if cmd, ok := strings.CutPrefix(line, "CMD "); ok {
			var args []string
			if err := json.Unmarshal([]byte(cmd), &args); err != nil {
				t.Fatal(err)
			}
			lines = append(lines, args)
		}
	}
	for line := range strings.Lines(readFile(t, "../../deploy/vkc-serve.service")) {
		if cmd, ok := strings.CutPrefix(line, "ExecStart=/usr/local/bin/vkc "); ok {
			lines = append(lines, strings.Fields(cmd))
		}
	}
	lines = append(lines, checkManifest(t, "../../deploy/kubernetes.json"))
	if len(lines) != 3 {
		t.Fatalf("%d command lines, want 3: %v", len(lines), lines)
	}
	for _, args := range lines {
		cmd := (&app{}).serveCommand()
		if args[0] != "serve" {
			t.Errorf("%v: want vkc serve", args)
		}
		if err := cmd.ParseFlags(args[1:]); err != nil {
			t.Errorf("%v: %v", args, err)
		}
		if key, _ := cmd.Flags().GetString("key-file"); key == "" {
			t.Errorf("%v: there is no key, so anyone who reaches it may send requests", args)
		}
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// What the manifest has of Kubernetes' API, by its reference: a field that is none of these is an error.
type (
	metadata struct {
		Name                string
		Labels, Annotations map[string]string
	}
	probe struct {
		HTTPGet *struct {
			Path, Port string
		}
		TCPSocket                       *struct{ Port string }
		PeriodSeconds, FailureThreshold int
	}
	container struct {
		Name, Image string
		Args        []string
		Ports       []struct {
			Name          string
			ContainerPort int
		}
		StartupProbe, ReadinessProbe, LivenessProbe *probe
		Resources                                   struct{ Limits map[string]string }
		VolumeMounts                                []struct {
			Name, MountPath string
			ReadOnly        bool
		}
	}
	volume struct {
		Name                  string
		PersistentVolumeClaim *struct {
			ClaimName string
			ReadOnly  bool
		}
		Secret   *struct{ SecretName string }
		EmptyDir *struct{}
	}
	deployment struct {
		APIVersion, Kind string
		Metadata         metadata
		Spec             struct {
			Replicas int
			Selector struct{ MatchLabels map[string]string }
			Strategy struct {
				Type          string
				RollingUpdate struct{ MaxUnavailable, MaxSurge int }
			}
			Template struct {
				Metadata metadata
				Spec     struct {
					TerminationGracePeriodSeconds int
					Containers                    []container
					Volumes                       []volume
				}
			}
		}
	}
	service struct {
		APIVersion, Kind string
		Metadata         metadata
		Spec             struct {
			Selector map[string]string
			Ports    []struct {
				Name       string
				Port       int
				TargetPort string
			}
		}
	}
)

// checkManifest returns the arguments of the container of a manifest that holds together.
func checkManifest(t *testing.T, path string) []string {
	t.Helper()
	var list struct {
		APIVersion, Kind string
		Items            []json.RawMessage
	}
	strict(t, []byte(readFile(t, path)), &list)
	if list.APIVersion != "v1" || list.Kind != "List" || len(list.Items) != 2 {
		t.Fatalf("%s: want a List of v1 with a deployment and a service", path)
	}
	var d deployment
	var s service
	strict(t, list.Items[0], &d)
	strict(t, list.Items[1], &s)
	if d.APIVersion != "apps/v1" || d.Kind != "Deployment" || s.APIVersion != "v1" || s.Kind != "Service" {
		t.Errorf("%s %s and %s %s", d.APIVersion, d.Kind, s.APIVersion, s.Kind)
	}
	labels := d.Spec.Template.Metadata.Labels["app"]
	if labels == "" || d.Spec.Selector.MatchLabels["app"] != labels || s.Spec.Selector["app"] != labels {
		t.Error("the selectors do not name the pods")
	}
	pod := d.Spec.Template.Spec
	if len(pod.Containers) != 1 || len(pod.Containers[0].Ports) != 1 {
		t.Fatal("want one container with one port")
	}
	c := pod.Containers[0]
	for _, port := range []string{s.Spec.Ports[0].TargetPort, c.ReadinessProbe.HTTPGet.Port,
		c.StartupProbe.HTTPGet.Port, c.LivenessProbe.TCPSocket.Port} {
		if port != c.Ports[0].Name {
			t.Errorf("port %q: the container has %q", port, c.Ports[0].Name)
		}
	}
	for _, m := range c.VolumeMounts {
		if !slices.ContainsFunc(pod.Volumes, func(v volume) bool { return v.Name == m.Name }) {
			t.Errorf("there is no volume %q", m.Name)
		}
	}
	return c.Args
}

func strict(t *testing.T, text []byte, into any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		t.Fatal(err)
	}
}
