package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/ir/optest"
)

func TestVerify(t *testing.T) {
	r := ok(t, "verify", "--ops", "--device", "cpu", "--filter", "^(relu|sum)/")
	lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
	if len(lines) != 4 || !strings.HasSuffix(lines[1], " relu") || !strings.HasSuffix(lines[2], " sum") ||
		!strings.HasSuffix(lines[3], " all") {
		t.Errorf("prints\n%s", r.stdout)
	}
	for _, line := range lines[1:] {
		if f := strings.Fields(line); f[0] == "0" || f[0] != f[1] || f[2] != "0" || f[3] != "0" {
			t.Errorf("%q: want all cases passed", line)
		}
	}
}

func TestVerifyJSON(t *testing.T) {
	line := []string{"verify", "--ops", "--device", "cpu", "--quick", "--filter", "^relu/"}
	info := okJSON[verifyInfo](t, line...)
	if info.Device == "" || info.Total.Cases == 0 || info.Total.Passed != info.Total.Cases || len(info.Ops) != 1 ||
		info.Ops[0].Op != "relu" || len(info.Results) != 0 {
		t.Errorf("%+v", info)
	}
	all := okJSON[verifyInfo](t, append(line, "--cases")...)
	if len(all.Results) != info.Total.Cases || all.Results[0].Op != "relu" || all.Results[0].Elems == 0 {
		t.Errorf("%+v", all)
	}
}

// TestVerifyReport: the report has the results, and the device and versions that they depend on.
func TestVerifyReport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.json")
	ok(t, "verify", "--ops", "--device", "cpu", "--quick", "--filter", "^relu/", "--report", path)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var r problemReport
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	if r.Version != thisVersion() || len(r.Doctor) == 0 || r.Verify.Total.Cases == 0 ||
		len(r.Devices.Devices) == 0 && r.Devices.Error == "" {
		t.Errorf("the report is\n%s", text)
	}
	fails(t, exitUsage, []string{"verify", "bundle.vkb", "--report", path}, "--report goes with --ops")

	// A report for a device that does not open has the error.
	run(t, "verify", "--ops", "--device", "no device of that name", "--report", path)
	if text, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	r = problemReport{}
	if err := json.Unmarshal(text, &r); err != nil || r.Error == "" || len(r.Doctor) == 0 {
		t.Errorf("%v: the report is\n%s", err, text)
	}
}

// TestFailing: of a case that failed, the report has the graph, the kernels and their GLSL.
func TestFailing(t *testing.T) {
	needDevice(t)
	devtest.OwnCache(t)
	dev, err := vkc.OpenDevice("vulkan")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	relu := func(c optest.Case) bool { return strings.HasPrefix(c.Name, "relu/f32/") }
	c := optest.Cases()[slices.IndexFunc(optest.Cases(), relu)]
	list := failing(t.Context(), dev, &optest.Report{Results: []optest.Result{
		{Case: "of another version", Outcome: optest.Fail}, {Case: c.Name, DType: c.DType, Outcome: optest.Fail},
		{Case: c.Name, DType: c.DType, Outcome: optest.Pass}}})
	if len(list) != 1 || list[0].Case != c.Name || !strings.Contains(list[0].Graph, "relu") ||
		len(list[0].Kernels) == 0 || len(list[0].GLSL) == 0 || !strings.Contains(list[0].GLSL[0], "void main") {
		t.Errorf("%+v", list)
	}
}

// TestVerifyDevice verifies one op on the device, and one that it refuses or not.
func TestVerifyDevice(t *testing.T) {
	needDevice(t)
	devtest.OwnCache(t)
	info := okJSON[verifyInfo](t, "verify", "--ops", "--filter", "^(relu|cumsum)/i32/(axis -1/)?(7x13|5x37)$")
	if len(info.Ops) != 2 || info.Ops[0].Op != "relu" || info.Ops[0].Passed != 1 || info.Total.Cases != 2 ||
		info.Total.Passed+info.Total.Refused != 2 {
		t.Errorf("%+v", info)
	}
	for _, s := range info.Ops {
		if s.Refused > 0 && len(s.Reasons) == 0 {
			t.Errorf("%s is refused without a reason", s.Op)
		}
	}
}

func TestVerifyWrongUsage(t *testing.T) {
	fails(t, exitUsage, []string{"verify"}, "pass --ops")
	fails(t, exitUsage, []string{"verify", "--ops", "--filter", "("}, "--filter")
	fails(t, exitUsage, []string{"verify", "--ops", "--filter", "^quux$"}, "matches no case")
	fails(t, exitUsage, []string{"verify", "--ops", "--cases"}, "--cases goes with --json")
	fails(t, exitFailure, []string{"verify", "--ops", "--device", "no such device"}, "no such device")
}
