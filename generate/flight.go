package generate

import (
	"context"
	"errors"
	"slices"

	"github.com/vkc-go/vkc"
)

// outcome is what a step says of the token that follows a text: which was chosen, or the logits of all.
type outcome struct {
	token  int32 // -1 where logits were no numbers
	chosen bool
	logits []float32 // nil where they are not needed
}

// flight is a step that the device has been given and whose tokens nobody has read. The next step may be given to the
// device before they are: it takes them there.
type flight struct {
	rows    []*slot
	answers []*answer // whose the rows were
	tokens  []int32   // nil until they are read

	// On the device, a row for each of rows; nil where not needed.
	token  *vkc.DeviceTensor // that was chosen
	top    *vkc.DeviceTensor // the largest logit: NaN where logits were no numbers
	recent *vkc.DeviceTensor // the last tokens of the text, the chosen one among them
	logits *vkc.DeviceTensor
}

// close forgets what the step gives.
func (f *flight) close() {
	for _, t := range []*vkc.DeviceTensor{f.token, f.top, f.recent, f.logits} {
		t.Close() // retires it, which cannot fail
	}
}

// goesOn reports whether a step of these rows goes on from the tokens of this one.
func (f *flight) goesOn(rows []*slot) bool {
	return slices.Equal(f.rows, rows) && slices.EqualFunc(f.answers, rows, func(a *answer, s *slot) bool {
		return s.of == a
	})
}

// stepKeeps are the outputs of a step that stay on the device: all.
var stepKeeps = []string{"logits", "likeliest", "top"}

// launch has the device take the next token of the text of each slot, after so many steps of the same rows that are in
// flight, the last of which is given. More says that another step follows at once.
func (m *Model) launch(ctx context.Context, rows []*slot, flying int, last *flight, more bool) (f *flight, err error) {
	var tokens, texts, positions, pages []int32
	for _, s := range rows {
		at := len(s.past) + flying
		s.written = max(s.written, at+1) // even if the run ends before it is waited for
		texts, positions = append(texts, s.at), append(positions, int32(at))
		if m.pages > 0 {
			pages = append(pages, s.table()...)
		}
		if last == nil {
			tokens = append(tokens, s.of.text[at])
		}
	}
	draws := slices.ContainsFunc(rows, func(s *slot) bool { return !s.of.chooser.sampling.likeliest() })
	o, in, n := vkc.RunOptions{Keep: stepKeeps, More: more || draws}, vkc.Tensors{}, len(rows)
	if last != nil {
		o.Inputs = map[string]*vkc.DeviceTensor{"tokens": last.token}
	} else {
		err = give(in, "tokens", tokens, n)
	}
	if m.places > 1 {
		err = errors.Join(err, give(in, "texts", texts, n), give(in, "positions", positions, n))
	} else {
		o.Symbols = map[string]int64{"S": int64(positions[0]) + 1}
	}
	if m.pages > 0 {
		err = errors.Join(err, give(in, "pages", pages, n, len(pages)/n))
	}
	if err != nil {
		return nil, err
	}
	res, err := m.stepOf(len(rows), int(slices.Max(positions))+1).Run(ctx, in, o)
	if err != nil {
		return nil, err
	}
	m.count(Speculated{Steps: 1})
	f = &flight{rows: slices.Clone(rows), token: res.Kept["likeliest"], top: res.Kept["top"],
		logits: res.Kept["logits"]}
	for _, s := range rows {
		f.answers = append(f.answers, s.of)
	}
	if draws {
		if err := m.draw(ctx, f, flying, last, more); err != nil {
			f.close()
			return nil, err
		}
	}
	if !slices.ContainsFunc(rows, func(s *slot) bool { return s.of.chooser.needsLogits() }) {
		f.logits.Close() // retires it, which cannot fail
		f.logits = nil
	}
	return f, nil
}

// draw has the device choose the tokens of a flight, where they are not all the likeliest, which the step has chosen.
func (m *Model) draw(ctx context.Context, f *flight, flying int, last *flight, more bool) error {
	var list []draw
	for _, s := range f.rows {
		c := s.of.chooser
		list = append(list, draw{c.sampling, s.of.text, len(s.past) + flying + 1 + c.forgotten})
	}
	var recent *vkc.DeviceTensor
	if last != nil {
		recent = last.recent
	}
	res, err := m.drawAll(ctx, list, nil, f.logits, recent, more)
	if err != nil {
		return err
	}
	f.token.Close()
	f.top.Close()
	f.token, f.top, f.recent = res.Kept["token"], res.Kept["top"], res.Kept["last"]
	return nil
}

// wait waits for a step and reads its tokens.
func (f *flight) wait(ctx context.Context) (err error) {
	if f.tokens == nil {
		f.tokens, err = tokensOf(ctx, f.token, f.top)
	}
	return err
}

// land waits for a step and says what it gave. Rows whose answers have ended meanwhile went too far: what they gave
// counts for nothing, and what was written for them the next text overwrites.
func (m *Model) land(ctx context.Context, f *flight) ([]outcome, error) {
	defer f.close()
	if err := f.wait(ctx); err != nil {
		return nil, err
	}
	all := make([]outcome, len(f.rows))
	for i, s := range f.rows {
		if all[i] = (outcome{token: f.tokens[i], chosen: true}); s.of != f.answers[i] {
			continue
		}
		s.past = append(s.past, s.of.text[len(s.past)])
		if !s.of.chooser.needsLogits() {
			continue
		}
		first, count := i, 1
		if m.places == 1 {
			count = m.config.Vocab // the only axis
		}
		row, err := f.logits.ReadRows(ctx, first, count)
		if err == nil {
			all[i].logits, err = vkc.Values[float32](row)
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// stepAll takes the next token of the text of each slot, and says what follows it.
func (m *Model) stepAll(ctx context.Context, rows []*slot) ([]outcome, error) {
	f, err := m.launch(ctx, rows, 0, nil, false)
	if err != nil {
		return nil, err
	}
	return m.land(ctx, f)
}
