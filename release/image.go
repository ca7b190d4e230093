package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
)

// The media types of an image in the form of the Open Container Initiative.
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// descriptor refers to a blob by its hash.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    map[string]string `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// layout collects the files of an image layout.
type layout struct{ files []file }

// blob adds a blob.
func (l *layout) blob(mediaType string, data []byte) descriptor {
	sum := sha256.Sum256(data)
	digest := hex.EncodeToString(sum[:])
	l.files = append(l.files, file{name: "blobs/sha256/" + digest, data: data})
	return descriptor{MediaType: mediaType, Digest: "sha256:" + digest, Size: len(data)}
}

// json adds a value as a blob.
func (l *layout) json(mediaType string, v any) (descriptor, error) {
	data, err := json.Marshal(v)
	return l.blob(mediaType, data), err
}

// image writes a container image for all given builds as an OCI layout in a tar, which podman load, skopeo and docker
// load take. It has vkc alone, without cgo: it runs on the CPU, and compiles for all devices if tools are mounted. For
// GPUs deploy/Dockerfile adds drivers.
func (r *release) image(builds []build) error {
	var l layout
	var manifests []descriptor
	for _, b := range builds {
		manifest, err := r.imageOf(&l, b)
		if err != nil {
			return err
		}
		manifests = append(manifests, manifest)
	}
	index, err := l.json(typeIndex, map[string]any{"schemaVersion": 2, "mediaType": typeIndex, "manifests": manifests})
	if err != nil {
		return err
	}
	index.Annotations = map[string]string{"org.opencontainers.image.ref.name": r.version}
	top, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": typeIndex,
		"manifests": []descriptor{index}})
	if err != nil {
		return err
	}
	l.files = append(l.files, file{name: "index.json", data: top},
		file{name: "oci-layout", data: []byte(`{"imageLayoutVersion":"1.0.0"}`)})
	var out bytes.Buffer
	if err := r.tar(&out, l.files); err != nil {
		return err
	}
	return r.write(fmt.Sprintf("vkc-%s-image.oci.tar", r.version), out.Bytes())
}

// imageOf adds the blobs of a build's image to a layout: its only layer, its configuration and its manifest. It returns
// the manifest's descriptor.
func (r *release) imageOf(l *layout, b build) (descriptor, error) {
	program, err := os.ReadFile(b.path)
	if err != nil {
		return descriptor{}, err
	}
	var plain bytes.Buffer
	files := []file{{name: "usr/bin/vkc", data: program, exec: true}, {name: "tmp/.keep"}}
	if err := r.tar(&plain, files); err != nil {
		return descriptor{}, err
	}
	packed, err := gzipped(plain.Bytes())
	if err != nil {
		return descriptor{}, err
	}
	layer := l.blob(typeLayer, packed)
	config, err := l.json(typeConfig, map[string]any{
		"architecture": b.arch, "os": b.os, "created": r.time,
		"config": map[string]any{
			"Entrypoint": []string{"/usr/bin/vkc"}, "User": "65532:65532",
			"Env": []string{"PATH=/usr/bin", "VKC_CACHE_DIR=/tmp/vkc"},
			"Labels": map[string]string{"org.opencontainers.image.version": r.version,
				"org.opencontainers.image.source": home, "org.opencontainers.image.licenses": "MIT OR Apache-2.0"},
		},
		"rootfs": map[string]any{"type": "layers",
			"diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(plain.Bytes()))}},
		"history": []map[string]any{{"created": r.time, "created_by": "release"}},
	})
	if err != nil {
		return descriptor{}, err
	}
	manifest, err := l.json(typeManifest, map[string]any{"schemaVersion": 2, "mediaType": typeManifest,
		"config": config, "layers": []descriptor{layer}})
	manifest.Platform = map[string]string{"os": b.os, "architecture": b.arch}
	return manifest, err
}
