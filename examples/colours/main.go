// Colours is one binary with a compiled model in it, which it serves over HTTP:
//
//	go build ./examples/colours && ./colours &
//	curl 'localhost:8080/?rgb=250,20,10&rgb=20,30,240'
//
// vkc compile made the bundle in folder model; docs/GUIDE.md describes all steps.
package main

import (
	"context"
	"embed"
	"flag"
	"fmt"
	"log"
	"net/http"
	"strconv"
	"strings"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/examples/colours/palette"
)

//go:embed model
var model embed.FS

// open loads the model in the binary on the best device.
func open(ctx context.Context, files embed.FS, device string) (*vkc.Executable, error) {
	content, err := files.ReadFile("model/colours.vkb")
	if err != nil {
		return nil, fmt.Errorf("%w: model/README.md says how to make it", err)
	}
	program, err := vkc.OpenBundleBytes(content)
	if err != nil {
		return nil, err
	}
	dev, err := vkc.OpenDevice(device)
	if err != nil {
		return nil, err
	}
	return dev.Load(ctx, program, vkc.LoadOptions{}) // the weights are in the bundle
}

// classify returns the name of the nearest colour of each pixel. A pixel is r, g and b from 0 to 1.
func classify(ctx context.Context, exe *vkc.Executable, rgb []float32) ([]string, error) {
	x, err := vkc.Of(rgb, len(rgb)/3, 3)
	if err != nil {
		return nil, err
	}
	res, err := exe.Run(ctx, vkc.Tensors{"rgb": x})
	if err != nil {
		return nil, err
	}
	nearest, err := vkc.Values[int32](res.Outputs["nearest"])
	if err != nil {
		return nil, err
	}
	sure, err := vkc.Values[float32](res.Outputs["sure"])
	if err != nil {
		return nil, err
	}
	names := make([]string, len(nearest))
	for i, c := range nearest {
		names[i] = fmt.Sprintf("%s (%.0f%%)", palette.Colours[c].Name, 100*sure[i])
	}
	return names, nil
}

// handler answers ?rgb=R,G,B&rgb=R,G,B with a line for each pixel. net/http calls it from many goroutines; an
// executable may be used by many goroutines.
func handler(exe *vkc.Executable) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		rgb, err := parse(req.URL.Query()["rgb"])
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		names, err := classify(req.Context(), exe, rgb)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, strings.Join(names, "\n"))
	}
}

// maxPixels is the maximum value of the model's symbol N.
const maxPixels = 4096

// parse reads pixels written as R,G,B, each from 0 to 255.
func parse(pixels []string) ([]float32, error) {
	if len(pixels) < 1 || len(pixels) > maxPixels {
		return nil, fmt.Errorf("want 1 to %d pixels, as in ?rgb=250,20,10", maxPixels)
	}
	var rgb []float32
	for _, p := range pixels {
		parts := strings.Split(p, ",")
		if len(parts) != 3 {
			return nil, fmt.Errorf("pixel %q: want R,G,B", p)
		}
		for _, part := range parts {
			v, err := strconv.ParseUint(part, 10, 8)
			if err != nil {
				return nil, fmt.Errorf("pixel %q: want numbers from 0 to 255", p)
			}
			rgb = append(rgb, float32(v)/255)
		}
	}
	return rgb, nil
}

func main() {
	addr := flag.String("addr", "localhost:8080",
		"where to listen; none to name the colours given as arguments instead")
	device := flag.String("device", "auto", "auto, vulkan, cpu, or part of a device's name")
	flag.Parse()
	ctx := context.Background()
	exe, err := open(ctx, model, *device)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("on %s", exe.Why())
	if *addr != "none" {
		log.Printf("serving http://%s/?rgb=250,20,10", *addr)
		log.Fatal(http.ListenAndServe(*addr, handler(exe)))
	}
	rgb, err := parse(flag.Args())
	if err != nil {
		log.Fatal(err)
	}
	names, err := classify(ctx, exe, rgb)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(strings.Join(names, "\n"))
}
