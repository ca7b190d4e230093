package tokenizer

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/internal/bailout"
)

// Folder has the contents of the files that describe the tokenizer of a Hugging Face folder. All but Tokenizer, or
// World, may be nil.
type Folder struct {
	Tokenizer    []byte            // tokenizer.json
	World        []byte            // rwkv_vocab_v20230424.txt, in place of Tokenizer
	Config       []byte            // tokenizer_config.json
	Special      []byte            // special_tokens_map.json
	Generation   []byte            // generation_config.json
	Model        []byte            // config.json
	Template     []byte            // chat_template.jinja
	TemplateJSON []byte            // chat_template.json
	Templates    map[string][]byte // further chat templates, by name
}

// folderReader translates a Folder.
type folderReader struct {
	Folder
	config, special, generation, model map[string]json.RawMessage
	document                           *document
	pipeline                           *pipeline
	vocabulary                         *jsonModel
	ids                                map[string]int32 // of all tokens
	kvs                                []gguf.KV
	whole                              bool // GGML's keys say all of the tokenizer
}

// Metadata returns the tokenizer, the chat templates and the sampling settings as metadata of a GGUF file, mostly in
// the keys that GGML defines. If these keys cannot express the tokenizer, another key has the whole tokenizer.json, and
// New uses that.
func (f Folder) Metadata() (kvs []gguf.KV, err error) {
	defer bailout.Caught(&err)
	r := &folderReader{Folder: f}
	for name, file := range map[string]struct {
		data []byte
		to   *map[string]json.RawMessage
	}{"tokenizer_config.json": {f.Config, &r.config}, "special_tokens_map.json": {f.Special, &r.special},
		"generation_config.json": {f.Generation, &r.generation}, "config.json": {f.Model, &r.model}} {
		if file.data != nil {
			*file.to = decodeJSON[map[string]json.RawMessage](name, file.data)
		}
	}
	if f.Tokenizer == nil && f.World != nil { // RWKV's vocabulary is a text file
		r.writeWorld()
	} else if err := r.readPipeline(); err != nil {
		return nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	r.writeRoles()
	r.writeTemplates()
	r.writeSampling()
	if !r.whole {
		r.kvs = append(r.kvs, gguf.KV{Key: jsonKey, Value: r.written()})
	}
	return r.kvs, nil
}

// readPipeline reads tokenizer.json, and writes its vocabulary.
func (r *folderReader) readPipeline() (err error) {
	r.document = bailout.Must(readDocument(r.Tokenizer))
	r.setFrame()
	if r.pipeline, r.vocabulary, err = r.document.pipeline(); err == nil {
		r.writeVocabulary()
	}
	return err
}

// set adds a metadata pair below tokenizer.ggml.
func (r *folderReader) set(key string, value any) {
	r.kvs = append(r.kvs, gguf.KV{Key: "tokenizer.ggml." + key, Value: value})
}

// framedClasses are the classes of tokenizers that add tokens as tokenizer_config.json says, whatever tokenizer.json
// says.
var framedClasses = []string{"LlamaTokenizer", "CodeLlamaTokenizer", "GemmaTokenizer"}

// setFrame replaces the post-processor, which adds tokens before and after a text. The Python classes of some
// tokenizers do the same: they add BOS and EOS as tokenizer_config.json says, whatever tokenizer.json says.
func (r *folderReader) setFrame() {
	class := strings.TrimSuffix(textOf(r.config["tokenizer_class"]), "Fast")
	configured := !isNull(r.config["add_bos_token"]) || !isNull(r.config["add_eos_token"])
	if !configured || !slices.Contains(framedClasses, class) {
		return
	}
	type part map[string]any
	single, special := []part{}, map[string]any{}
	add := func(flag, role string) {
		on := flag == "add_bos_token" // the default
		if raw := r.config[flag]; !isNull(raw) {
			on = decodeJSON[bool](flag, raw)
		}
		if name := r.role(role); on && name != "" {
			single = append(single, part{"SpecialToken": part{"id": name, "type_id": 0}})
			special[name] = map[string]any{"id": name, "ids": []int32{r.addedID(name)}, "tokens": []string{name}}
		}
	}
	add("add_bos_token", "bos")
	single = append(single, part{"Sequence": part{"id": "A", "type_id": 0}}) // the text
	add("add_eos_token", "eos")
	r.document.PostProcessor = bailout.Must(json.Marshal(map[string]any{"type": "TemplateProcessing", "single": single,
		"pair": single, "special_tokens": special}))
}

// addedID returns the id of an added token.
func (r *folderReader) addedID(name string) int32 {
	i := slices.IndexFunc(r.document.Added, func(t addedToken) bool { return t.Content == name })
	bailout.Unless(i >= 0, "tokenizer_config.json has the token %q, which tokenizer.json does not add", name)
	return r.document.Added[i].ID
}

// textOf returns a JSON text, or the content of an added token, or "".
func textOf(raw json.RawMessage) string {
	var s string
	var token struct{ Content string }
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	if json.Unmarshal(raw, &token) == nil {
		return token.Content
	}
	return ""
}

// role returns the name of the token with a role, such as bos, or "".
func (r *folderReader) role(role string) string {
	for _, file := range []map[string]json.RawMessage{r.config, r.special} {
		if name := textOf(file[role+"_token"]); name != "" {
			return name
		}
	}
	return ""
}

// writeVocabulary writes the tokens of a folder, with their types, scores and merges, as metadata of GGUF.
func (r *folderReader) writeVocabulary() {
	v := r.vocabulary
	r.ids = maps.Clone(v.ids)
	for _, t := range r.document.Added {
		r.ids[t.Content] = t.ID
	}
	size := r.vocabularySize()
	tokens, types := make([]string, size), slices.Repeat([]int32{int32(unused)}, size)
	for id := range tokens {
		tokens[id] = fmt.Sprintf("[PAD%d]", id) // numbers that no token has
	}
	for name, id := range v.ids {
		tokens[id], types[id] = name, int32(normal)
		if _, ok := byteOf(name); ok && v.ByteFallback {
			types[id] = int32(byteToken)
		}
	}
	for _, t := range r.document.Added {
		tokens[t.ID], types[t.ID] = t.Content, int32(r.typeOf(t))
	}
	model, pre, whole := r.spelling()
	for id, name := range tokens { // GGML's spelling of WordPiece
		if rest, within := strings.CutPrefix(name, "##"); model == "bert" && types[id] == int32(normal) && within {
			tokens[id] = rest
		} else if model == "bert" && types[id] == int32(normal) {
			tokens[id] = blank + name
		}
	}
	r.set("model", model)
	if pre != "" {
		r.set("pre", pre)
	}
	r.set("tokens", tokens)
	r.set("token_type", types)
	r.writeMerges(model, size)
	r.whole = whole
}

// vocabularySize returns the number of tokens of the vocabulary. It may be more than r.ids has, because ids may have
// gaps, and the model's tables may be larger than the vocabulary.
func (r *folderReader) vocabularySize() (size int) {
	for _, id := range r.ids {
		size = max(size, int(id)+1)
	}
	bailout.Unless(size > 0, "tokenizer.json has no tokens")
	// A hostile file must not make vkc allocate names for unused ids.
	bailout.Unless(size <= 2*len(r.ids)+maxUnused, "the largest id is %d, for %d tokens", size-1, len(r.ids))
	for _, model := range []map[string]json.RawMessage{r.model, inner(r.model, "text_config")} {
		if raw := model["vocab_size"]; !isNull(raw) {
			size = max(size, min(decodeJSON[int]("vocab_size", raw), size+maxUnused))
		}
	}
	return size
}

// typeOf returns GGML's type of an added token.
func (r *folderReader) typeOf(t addedToken) tokenType {
	isText := r.vocabulary.text[t.Content] == t.ID && strings.Trim(t.Content, blank) == "" // merges make it of spaces
	switch {
	case t.Special && t.ID == r.vocabulary.unk:
		return unknown
	case t.Special:
		return control
	case isText:
		return normal
	}
	return userDefined
}

// maxUnused bounds the ids that no token has.
const maxUnused = 1 << 20

// inner returns an object in a JSON object, or nil.
func inner(object map[string]json.RawMessage, key string) (in map[string]json.RawMessage) {
	if json.Unmarshal(object[key], &in) != nil {
		return nil
	}
	return in
}

// written returns the tokenizer.json that the metadata have, with the post-processor of setFrame.
func (r *folderReader) written() string {
	all := decodeJSON[map[string]json.RawMessage]("tokenizer.json", r.Tokenizer)
	if !isNull(r.document.PostProcessor) {
		all["post_processor"] = r.document.PostProcessor
	}
	delete(all, "truncation")
	delete(all, "padding")
	return string(bailout.Must(json.Marshal(all)))
}

// writeMerges writes the merges of a byte-level vocabulary, or the scores of another, as metadata of GGUF. model is the
// kind of vocabulary in GGUF, and size the number of its tokens.
func (r *folderReader) writeMerges(model string, size int) {
	v := r.vocabulary
	if model == "gpt2" {
		merges := make([]string, len(v.merges))
		for i, m := range v.merges {
			merges[i] = m[0] + " " + m[1]
		}
		r.set("merges", merges)
		return
	}
	scores := make([]float32, size)
	if v.scores != nil {
		for name, score := range v.scores {
			scores[v.ids[name]] = float32(score)
		}
	} else { // a merge is the better the earlier it is
		for i, m := range v.merges {
			if id, ok := v.ids[m[0]+m[1]]; ok && scores[id] == 0 {
				scores[id] = -float32(i + 1)
			}
		}
	}
	if model == "llama" || model == "t5" {
		r.set("scores", scores)
	}
}

// writeRoles writes the tokens that have a role, such as the end of a text, and whether each is added to a text. If the
// rules in tokenizer.json add other tokens, r.whole becomes false.
func (r *folderReader) writeRoles() {
	found := map[string]int32{}
	for role, key := range map[string]string{"bos": "bos", "eos": "eos", "unk": "unknown", "sep": "seperator",
		"pad": "padding", "cls": "cls", "mask": "mask"} {
		if id, ok := r.ids[r.role(role)]; ok {
			found[key] = id
		}
	}
	if _, ok := found["unknown"]; !ok && r.vocabulary.unk != none {
		found["unknown"] = r.vocabulary.unk
	}
	ends := r.tokenIDs("eos_token_id")
	if _, ok := found["bos"]; !ok {
		for _, id := range r.tokenIDs("bos_token_id") {
			found["bos"] = id
		}
	}
	// The list of ends fills the roles that have no token yet.
	for _, key := range []string{"eos", "eot", "eom"} {
		if _, ok := found[key]; !ok && len(ends) > 0 {
			found[key] = ends[0]
		}
		ends = slices.DeleteFunc(ends, func(id int32) bool { have, ok := found[key]; return ok && id == have })
	}
	for _, key := range slices.Sorted(maps.Keys(found)) {
		r.set(key+"_token_id", uint32(found[key]))
	}
	if len(ends) > 0 {
		r.kvs = append(r.kvs, gguf.KV{Key: endsKey, Value: ends})
	}
	before, after, err := frameOf(r.document.PostProcessor)
	bailout.Check(err)
	isOnly := func(list []int32, key string) bool {
		id, ok := found[key]
		return ok && slices.Equal(list, []int32{id})
	}
	begins, ended := isOnly(before, "bos") || isOnly(before, "cls"), isOnly(after, "eos")
	r.set("add_bos_token", begins)
	r.set("add_eos_token", ended)
	r.set("add_sep_token", !ended && isOnly(after, "seperator"))
	r.whole = r.whole && (begins || len(before) == 0) && (ended || isOnly(after, "seperator") || len(after) == 0)
	parts := string(r.document.Normalizer) + string(r.document.PreTokenizer)
	r.set("add_space_prefix", strings.Contains(parts, `"Prepend"`) ||
		strings.Contains(parts, `"Metaspace"`) && !strings.Contains(parts, `"never"`))
}

// endsKey is the metadata key with further tokens that end an answer.
const endsKey = "vkc.tokenizer.end_token_ids"

// tokenIDs returns the token ids at a key of generation_config.json or config.json: one or a list. The first file that
// has the key counts. Ids outside of the vocabulary are dropped.
func (r *folderReader) tokenIDs(key string) []int32 {
	for _, file := range []map[string]json.RawMessage{r.generation, r.model, inner(r.model, "text_config")} {
		var one int32
		var list []int32
		if raw := file[key]; isNull(raw) {
			continue
		} else if json.Unmarshal(raw, &one) == nil {
			list = []int32{one}
		} else {
			list = decodeJSON[[]int32](key, raw)
		}
		known := map[int32]bool{}
		for _, id := range r.ids {
			known[id] = true
		}
		return slices.DeleteFunc(list, func(id int32) bool { return !known[id] })
	}
	return nil
}

// TemplateKey returns the metadata key of a chat template with a name; "" is the default template's.
func TemplateKey(name string) string {
	return strings.TrimSuffix("tokenizer.chat_template."+name, ".")
}

// writeTemplates writes the chat templates of a folder as metadata. A file of its own replaces a template in
// chat_template.json, and that replaces one in tokenizer_config.json.
func (r *folderReader) writeTemplates() {
	templates := map[string]string{}
	add := func(raw json.RawMessage) { // one text, a list of names and texts, or a map
		if text := textOf(raw); text != "" {
			templates["default"] = text
			return
		}
		var list []struct{ Name, Template string }
		if json.Unmarshal(raw, &list) == nil {
			for _, t := range list {
				templates[t.Name] = t.Template
			}
			return
		}
		var named map[string]string
		if json.Unmarshal(raw, &named) == nil {
			maps.Copy(templates, named)
		}
	}
	add(r.config["chat_template"])
	if r.TemplateJSON != nil {
		add(decodeJSON[map[string]json.RawMessage]("chat_template.json", r.TemplateJSON)["chat_template"])
	}
	if r.Template != nil {
		templates["default"] = string(r.Template)
	}
	for name, text := range r.Templates {
		templates[name] = string(text)
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(templates)) {
		key := TemplateKey(name)
		if name == "default" {
			key = TemplateKey("")
		} else {
			names = append(names, name) // templates other than the default, such as tool_use
		}
		r.kvs = append(r.kvs, gguf.KV{Key: key, Value: templates[name]})
	}
	if len(names) > 0 {
		r.kvs = append(r.kvs, gguf.KV{Key: "tokenizer.chat_templates", Value: names})
	}
}

// writeSampling writes the settings with which generation_config.json samples tokens. It writes none if the model is
// meant to always take the most probable token.
func (r *folderReader) writeSampling() {
	if raw := r.generation["do_sample"]; !isNull(raw) && !decodeJSON[bool]("do_sample", raw) {
		return
	}
	for _, s := range []struct{ key, name string }{{"temp", "temperature"}, {"top_p", "top_p"}, {"min_p", "min_p"},
		{"penalty_repeat", "repetition_penalty"}} {
		if raw := r.generation[s.name]; !isNull(raw) {
			r.kvs = append(r.kvs, gguf.KV{Key: "general.sampling." + s.key,
				Value: float32(decodeJSON[float64](s.name, raw))})
		}
	}
	if raw := r.generation["top_k"]; !isNull(raw) {
		r.kvs = append(r.kvs, gguf.KV{Key: "general.sampling.top_k", Value: decodeJSON[int32]("top_k", raw)})
	}
}

// spelling returns the values of GGML's keys for the tokenizer: tokenizer.ggml.model and, for byte-level vocabularies,
// tokenizer.ggml.pre. whole reports whether model and pre describe the tokenizer completely.
func (r *folderReader) spelling() (model, pre string, whole bool) {
	switch v := r.vocabulary; v.kind {
	case "BPE":
		if !strings.Contains(string(r.document.PreTokenizer)+string(r.document.Decoder), "ByteLevel") {
			return "llama", "", false
		}
		// Several kinds may have the same patterns, and differ in ignore_merges.
		for _, kind := range strings.Fields(kindsByPatterns[strings.Join(r.patterns(), "\n")]) {
			if byName[kind].whole == v.IgnoreMerges {
				return "gpt2", kind, r.isPlain(byName[kind])
			}
			pre = cmp.Or(pre, kind)
		}
		return "gpt2", pre, false
	case "Unigram":
		return "t5", "", false
	case "WordPiece":
		return "bert", "", false
	}
	return "huggingface", "", false
}

// The patterns that split a text into words in byte-level vocabularies.
const (
	suffixPattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)`
	restPattern   = `\s*[\r\n]+|\s+(?!\S)|\s+`
	basicPattern  = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	threePattern  = suffixPattern + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|` + restPattern
	onePattern    = suffixPattern + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|` + restPattern
	headsPattern  = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+`
	tailsPattern  = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*`
	signsPattern  = ` ?[^\s\p{L}\p{N}]+[\r\n/]*|` + restPattern
	deepPattern   = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|" +
		`[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|` + restPattern
)

// kindsByPatterns names the kinds of byte-level vocabularies by their patterns, one a line. Kinds with equal patterns
// differ in whether a word that is a token is merged.
var kindsByPatterns = map[string]string{
	basicPattern:                  "gpt-2",
	`\p{N}` + "\n" + basicPattern: "starcoder",
	threePattern:                  "llama-bpe dbrx",
	onePattern:                    "qwen2",
	headsPattern + suffixPattern + "?|" + tailsPattern + suffixPattern + `?|\p{N}{1,3}|` + signsPattern: "gpt-4o",
	headsPattern + "|" + tailsPattern + `|\p{N}|` + signsPattern:                                        "tekken",
	`\p{N}{1,3}` + "\n[一-龥぀-ゟ゠-ヿ]+\n" + deepPattern:                                                     "deepseek-v3",
}

// patterns returns the patterns of a pre-tokenizer for byte-level vocabularies, or nil for others.
func (r *folderReader) patterns() []string {
	list, ok := patternsOf(r.document.PreTokenizer)
	if !ok {
		return nil
	}
	for i, p := range list {
		list[i] = strings.NewReplacer("\r", `\r`, "\n", `\n`).Replace(p)
	}
	return list
}

// patternsOf returns the patterns by which a pre-tokenizer, or a part of one, splits a text one after another. ok is
// false if it does anything else.
func patternsOf(raw json.RawMessage) (list []string, ok bool) {
	c := decodeJSON[struct {
		Type          string
		PreTokenizers []json.RawMessage
		Pattern       struct{ Regex string }
		Behavior      string
		Invert        bool
		Prefix        bool  `json:"add_prefix_space"`
		Words         *bool `json:"use_regex"`
		Each          bool  `json:"individual_digits"`
	}]("pre_tokenizer", raw)
	// The matches and the text between them become words.
	isolated := c.Behavior == "Isolated" && !c.Invert || c.Behavior == "Removed" && c.Invert
	switch {
	case c.Type == "Sequence":
		for _, part := range c.PreTokenizers {
			more, ok := patternsOf(part)
			if !ok {
				return nil, false
			}
			list = append(list, more...)
		}
		return list, true
	case c.Type == "Split" && c.Pattern.Regex != "" && isolated:
		return []string{c.Pattern.Regex}, true
	case c.Type == "Digits" && c.Each:
		return []string{`\p{N}`}, true
	case c.Type == "ByteLevel" && !c.Prefix && (c.Words == nil || *c.Words):
		return []string{basicPattern}, true
	case c.Type == "ByteLevel" && !c.Prefix:
		return nil, true
	}
	return nil, false
}

// isPlain reports whether GGML's keys can describe a byte-level tokenizer completely. k is the kind with its patterns.
func (r *folderReader) isPlain(k kind) bool {
	d, v := r.document, r.vocabulary
	type sequence struct {
		Type        string
		Normalizers []json.RawMessage
	}
	var normalizer sequence
	if !isNull(d.Normalizer) {
		normalizer = decodeJSON[sequence]("normalizer", d.Normalizer)
	}
	normalizes := normalizer.Type != "" && (normalizer.Type != "Sequence" || len(normalizer.Normalizers) > 0)
	hasAffixes := text(v.Prefix) != "" || text(v.Suffix) != ""
	if normalizes || hasAffixes || k.whole != v.IgnoreMerges || isNull(d.Decoder) ||
		decodeJSON[typed]("decoder", d.Decoder).Type != "ByteLevel" {
		return false
	}
	// Every byte must be a token, so that each text has tokens.
	for _, b := range printable {
		if _, ok := v.text[string(b)]; !ok {
			return false
		}
	}
	for _, m := range v.merges {
		for _, name := range []string{m[0], m[1], m[0] + m[1]} {
			if _, ok := v.text[name]; !ok || strings.Contains(name, " ") {
				return false
			}
		}
	}
	return !slices.ContainsFunc(d.Added, func(t addedToken) bool { return t.SingleWord || t.Left || t.Right })
}
