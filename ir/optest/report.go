package optest

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/vkc-go/vkc/ir"
)

// Outcome says how a case ended.
type Outcome string

// The outcomes.
const (
	Pass    Outcome = "pass"
	Fail    Outcome = "fail"
	Refusal Outcome = "refused" // the backend said that it cannot run the graph
)

// A Result is the outcome of a case.
type Result struct {
	Case    string   `json:"case"`
	Op      string   `json:"op"`
	DType   ir.DType `json:"dtype"`
	Outcome Outcome  `json:"outcome"`
	Reason  string   `json:"reason,omitempty"` // of a failure or refusal
	Elems   int      `json:"elems"`            // elements compared
	// Worst is the largest error as a multiple of the tolerance; above 1 the case fails. WorstAbs is the largest
	// |got-want|.
	Worst    Number `json:"worst"`
	WorstAbs Number `json:"worst_abs"`
}

// A Report is the outcome of all cases, in the order of Cases.
type Report struct {
	Results []Result `json:"results"`
}

// A Summary counts the cases of one op, or of all.
type Summary struct {
	Op       string   `json:"op"`
	Cases    int      `json:"cases"`
	Passed   int      `json:"passed"`
	Failed   int      `json:"failed"`
	Refused  int      `json:"refused"`
	Reasons  []string `json:"reasons,omitempty"` // the different reasons of refusals, with %n for node numbers
	Worst    Number   `json:"worst"`             // see Result
	WorstAbs Number   `json:"worst_abs"`
}

// Summaries returns a summary for each op that has results, in table order.
func (r *Report) Summaries() []Summary {
	var list []Summary
	for _, res := range r.Results {
		if n := len(list); n == 0 || list[n-1].Op != res.Op {
			list = append(list, Summary{Op: res.Op})
		}
		list[len(list)-1].add(res)
	}
	return list
}

// Total returns the summary of all ops.
func (r *Report) Total() Summary {
	total := Summary{Op: "all"}
	for _, res := range r.Results {
		total.add(res)
	}
	return total
}

// Failures returns the results that failed.
func (r *Report) Failures() []Result {
	var list []Result
	for _, res := range r.Results {
		if res.Outcome == Fail {
			list = append(list, res)
		}
	}
	return list
}

// nodeNumber matches the node number in a refusal, which must be removed to group equal reasons.
var nodeNumber = regexp.MustCompile(`%[0-9]+`)

// add counts the result of a case.
func (s *Summary) add(r Result) {
	s.Cases++
	switch r.Outcome {
	case Pass:
		s.Passed++
	case Refusal:
		s.Refused++
		if reason := nodeNumber.ReplaceAllString(r.Reason, "%n"); !slices.Contains(s.Reasons, reason) {
			s.Reasons = append(s.Reasons, reason)
		}
	default: // an unknown outcome is not a pass
		s.Failed++
	}
	s.Worst, s.WorstAbs = max(s.Worst, r.Worst), max(s.WorstAbs, r.WorstAbs)
}

// Err returns nil if no case failed, else one line with the number of failures and the first one.
func (r *Report) Err() error {
	failed := r.Failures()
	if len(failed) == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d cases failed, the first is %s: %s", len(failed), len(r.Results), failed[0].Case,
		failed[0].Reason)
}

// WriteTable writes a line per op, a line per reason of refusals, and a line per failure.
func (r *Report) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "cases\tpassed\tfailed\trefused\tworst/allowed\tworst\t  op")
	for _, s := range append(r.Summaries(), r.Total()) {
		fmt.Fprintf(t, "%d\t%d\t%d\t%d\t%.2g\t%.2g\t  %s\n", s.Cases, s.Passed, s.Failed, s.Refused, float64(s.Worst),
			float64(s.WorstAbs), s.Op)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, reason := range r.refusals() {
		if _, err := fmt.Fprintln(w, reason); err != nil {
			return err
		}
	}
	for _, f := range r.Failures() {
		if _, err := fmt.Fprintf(w, "FAIL %s: %s\n", f.Case, f.Reason); err != nil {
			return err
		}
	}
	return nil
}

// refusals returns a line for each reason of refusals, with the refused ops.
func (r *Report) refusals() []string {
	var reasons []string
	ops := map[string][]string{}
	for _, s := range r.Summaries() {
		for _, reason := range s.Reasons {
			if ops[reason] == nil {
				reasons = append(reasons, reason)
			}
			ops[reason] = append(ops[reason], s.Op)
		}
	}
	for i, reason := range reasons {
		reasons[i] = fmt.Sprintf("refused %s: %s", strings.Join(ops[reason], ", "), reason)
	}
	return reasons
}
