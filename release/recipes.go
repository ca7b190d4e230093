package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

// home is where the project and its releases are.
const home = "https://github.com/vkc-go/vkc"

// asset is an archive for a recipe.
type asset struct {
	URL, Hex, SRI string
}

// brew is the formula for Homebrew.
var brew = template.Must(template.New("").Parse(`class Vkc < Formula
  desc "Compiler of tensor programs to fused Vulkan compute kernels"
  homepage "` + home + `"
  version "{{.Version}}"
  license any_of: ["MIT", "Apache-2.0"]
{{range $os, $name := .Systems}}{{with index $.Assets $os}}
  on_{{$name}} do
{{- range $cpu, $a := .}}
    on_{{$cpu}} do
      url "{{$a.URL}}"
      sha256 "{{$a.Hex}}"
    end
{{- end}}
  end
{{end}}{{end}}
  def install
    bin.install "vkc"
    man1.install Dir["share/man/man1/*.1"]
    bash_completion.install "share/bash-completion/completions/vkc"
    zsh_completion.install "share/zsh/vendor-completions/_vkc"
    fish_completion.install "share/fish/vendor_completions.d/vkc.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/vkc version")
  end
end
`))

// nix is the derivation for Nix. It takes the same archives.
var nix = template.Must(template.New("").Parse(`{ lib, stdenvNoCC, fetchurl, installShellFiles, autoPatchelfHook }:

let
  version = "{{.Version}}";
  sources = {
{{- range $system, $a := .Nix}}
    "{{$system}}" = fetchurl { url = "{{$a.URL}}"; hash = "{{$a.SRI}}"; };
{{- end}}
  };
in
stdenvNoCC.mkDerivation {
  pname = "vkc";
  inherit version;
  src = sources.${stdenvNoCC.hostPlatform.system} or (throw "vkc: no archive for ${stdenvNoCC.hostPlatform.system}");
  nativeBuildInputs = [ installShellFiles ] ++ lib.optional stdenvNoCC.hostPlatform.isLinux autoPatchelfHook;
  installPhase = ''
    runHook preInstall
    install -Dm755 vkc $out/bin/vkc
    installManPage share/man/man1/*.1
    installShellCompletion --cmd vkc --bash share/bash-completion/completions/vkc \
      --zsh share/zsh/vendor-completions/_vkc --fish share/fish/vendor_completions.d/vkc.fish
    runHook postInstall
  '';
  meta = {
    description = "Compiler of tensor programs to fused Vulkan compute kernels";
    homepage = "` + home + `";
    license = with lib.licenses; [ mit asl20 ];
    mainProgram = "vkc";
    platforms = builtins.attrNames sources;
  };
}
`))

// recipes writes the recipes of package managers that fetch archives. They name each archive with its hash.
func (r *release) recipes(builds []build) error {
	systems := map[string]string{"linux": "linux", "darwin": "macos"}
	cpus := map[string]string{"amd64": "intel", "arm64": "arm"}
	nixCPUs := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}
	assets, nixAssets := map[string]map[string]asset{}, map[string]asset{}
	for _, b := range builds {
		if systems[b.os] == "" {
			continue
		}
		name := r.archiveName(b)
		data, err := os.ReadFile(filepath.Join(r.out, name))
		if err != nil {
			return err
		}
		sum := sha256.Sum256(data)
		a := asset{URL: home + "/releases/download/" + r.version + "/" + name, Hex: fmt.Sprintf("%x", sum),
			SRI: "sha256-" + base64.StdEncoding.EncodeToString(sum[:])}
		if assets[b.os] == nil {
			assets[b.os] = map[string]asset{}
		}
		assets[b.os][cpus[b.arch]] = a
		nixAssets[nixCPUs[b.arch]+"-"+b.os] = a
	}
	if len(nixAssets) == 0 {
		return nil
	}
	values := map[string]any{"Version": strings.TrimPrefix(r.version, "v"), "Systems": systems, "Assets": assets,
		"Nix": nixAssets}
	recipes := map[string]*template.Template{"vkc.rb": brew, "vkc.nix": nix}
	for _, name := range sorted(recipes) {
		var b bytes.Buffer
		if err := recipes[name].Execute(&b, values); err != nil {
			return err
		}
		if err := r.write(name, b.Bytes()); err != nil {
			return err
		}
	}
	return nil
}
