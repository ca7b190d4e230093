package vk_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/runtime/vk"
)

// These tests cause messages, so they end by clearing them, having failed if others came before.

func clearAfter(t *testing.T) {
	t.Helper()
	if before := vk.ValidationMessages(); len(before) > 0 {
		t.Fatalf("messages before the test: %q", before)
	}
	t.Cleanup(vk.ClearMessages)
}

// skipWhereMessagesFail skips a test that provokes messages where the harness
// itself fails on any message; scripts/test runs these tests apart.
func skipWhereMessagesFail(t *testing.T) {
	t.Helper()
	if os.Getenv("VKC_MESSAGES_FAIL") != "" {
		t.Skip("a message fails the program here")
	}
}

func TestMessagesAreKept(t *testing.T) {
	vktest.Instance(t)
	clearAfter(t)
	for i := range 300 {
		vk.InjectMessage(fmt.Sprint("message ", i))
	}
	got := vk.ValidationMessages()
	if len(got) != 257 || got[0] != "message 0" || got[255] != "message 255" || got[256] != "and 44 more" {
		t.Errorf("%d messages, from %q to %q", len(got), got[0], got[len(got)-1])
	}
	vk.ClearMessages()
	if got := vk.ValidationMessages(); len(got) != 0 {
		t.Errorf("messages are left: %q", got)
	}
	long := strings.Repeat("x", 1<<16)
	vk.InjectMessage(long)
	if got := vk.ValidationMessages(); len(got) != 1 || !strings.HasPrefix(long, got[0]) || len(got[0]) < 1000 {
		t.Errorf("a long message comes back as %d messages", len(got))
	}
}

// TestLayersAreHeard makes sure that silence means something.
func TestLayersAreHeard(t *testing.T) {
	if !strings.Contains(os.Getenv("VK_INSTANCE_LAYERS"), "VK_LAYER_KHRONOS_validation") {
		t.Skip("run with VK_INSTANCE_LAYERS=VK_LAYER_KHRONOS_validation")
	}
	skipWhereMessagesFail(t)
	clearAfter(t)
	d := vktest.Device(t, vk.DeviceOptions{})
	b := buffer(t, d, "unaligned", 64, vk.DeviceMemory)
	c := d.NewCommandList()
	c.FillUnchecked(b, 2, 4)
	record(t, d, c) // and never submitted
	if got := fmt.Sprint(vk.ValidationMessages()); !strings.Contains(got, "VUID-vkCmdFillBuffer-dstOffset") {
		t.Errorf("an unaligned fill goes without its message: %s", got)
	}
}

func TestMissingBarrierIsHeard(t *testing.T) {
	if os.Getenv("VK_LAYER_ENABLES") == "" && os.Getenv("VK_LAYER_VALIDATE_SYNC") != "1" {
		t.Skip("run with synchronization validation")
	}
	skipWhereMessagesFail(t)
	clearAfter(t)
	d := vktest.Device(t, vk.DeviceOptions{})
	a, b := buffer(t, d, "a", 256, vk.DeviceMemory), buffer(t, d, "b", 256, vk.DeviceMemory)
	list := func(barrier bool) *vk.CommandList {
		c := d.NewCommandList()
		c.BindPipeline(pipeline(t, d, copyDesc(t)))
		sets := bindings(t, d, bind(a, b), bind(b, a))
		c.Bind(sets, 0)
		c.Dispatch(1, 1, 1)
		if barrier {
			c.Barrier(vk.StageCompute, vk.StageCompute)
		}
		c.Bind(sets, 1)
		c.Dispatch(1, 1, 1)
		return c
	}
	record(t, d, list(true))
	if got := vk.ValidationMessages(); len(got) > 0 {
		t.Errorf("with the barrier: %q", got)
	}
	record(t, d, list(false))
	if got := fmt.Sprint(vk.ValidationMessages()); !strings.Contains(got, "SYNC-HAZARD") {
		t.Errorf("without the barrier: %s; want a hazard", got)
	}
}
