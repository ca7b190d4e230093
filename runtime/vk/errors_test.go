package vk_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/runtime/vk"
)

func TestResultText(t *testing.T) {
	for r, want := range map[vk.Result]string{
		vk.ErrorDeviceLost: "device lost", vk.Timeout: "timeout", -123456: "result -123456",
	} {
		if got := r.String(); got != want {
			t.Errorf("result %d is %q; want %q", int32(r), got, want)
		}
	}
	err := error(&vk.Error{Op: "submit", Result: vk.ErrorOutOfDeviceMemory})
	if got := err.Error(); !strings.Contains(got, "submit: out of device memory") {
		t.Errorf("error %q", got)
	}
	if errors.Is(err, vk.ErrDeviceLost) {
		t.Error("running out of memory passes for a lost device")
	}
}

// TestDeviceLost can only pretend: no call on a sound device loses it.
func TestDeviceLost(t *testing.T) {
	d := vktest.Device(t, vk.DeviceOptions{})
	ctx := context.Background()
	b := must(d.NewBuffer("b", 64, vk.DeviceMemory))(t)
	c := d.NewCommandList()
	c.FillBuffer(b, 0, 64, 1)
	r := must(d.Record("r", c))(t)
	p := must(d.Submit(r))(t)
	if err := d.MarkLost(); !errors.Is(err, vk.ErrDeviceLost) {
		t.Errorf("the call that loses the device: %v", err)
	}
	_, submit := d.Submit(r)
	_, make := d.NewBuffer("late", 64, vk.DeviceMemory)
	for what, err := range map[string]error{
		"submit": submit, "wait": d.Wait(ctx, p), "buffer": make, "download": d.Download(ctx, []byte{0}, b, 0),
	} {
		if !errors.Is(err, vk.ErrDeviceLost) {
			t.Errorf("%s on a lost device: %v; want ErrDeviceLost", what, err)
		}
	}
	// Closing still works, as vktest.Device checks.
	if err := errors.Join(b.Close(), r.Close()); err != nil {
		t.Error(err)
	}
}
