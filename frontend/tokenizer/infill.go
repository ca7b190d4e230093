package tokenizer

// Infill has the tokens that mark the parts of a prompt for fill-in-the-middle (FIM, Bavarian et al. 2022,
// arXiv:2207.14255). The model then writes the text between a prefix and a suffix. Repository and File are -1 if the
// vocabulary lacks them.
type Infill struct {
	Prefix, Suffix, Middle int32
	Repository, File       int32 // they precede the name of a repository, and of each file
}

// infillKeys has, for each token that marks a part of a text to fill in, its names in the metadata of GGUF files,
// newest first.
var infillKeys = [][]string{{"fim_pre", "prefix"}, {"fim_suf", "suffix"}, {"fim_mid", "middle"}, {"fim_rep"},
	{"fim_sep"}}

// infillNames has the names of the tokens in the vocabularies that families of models use.
var infillNames = [][5]string{
	{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|repo_name|>", "<|file_sep|>"}, // Qwen, CodeGemma
	{"<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<repo_name>", "<file_sep>"},           // StarCoder 2, Granite
	{"<fim-prefix>", "<fim-suffix>", "<fim-middle>", "", ""},                                // SantaCoder
	{"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>", "", ""},                                // DeepSeek
	{"▁<PRE>", "▁<SUF>", "▁<MID>", "", ""},                                                  // Code Llama
	{"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>", "", ""},                       // GLM
}

// Infill returns the tokens for fill-in-the-middle, if the vocabulary has them.
func (t *Tokenizer) Infill() (marks Infill, ok bool) { return t.infill, t.infill.Prefix != none }

// readInfill sets t.infill, the tokens for fill-in-the-middle, from the metadata, and otherwise from tokens with usual
// names. Without prefix, suffix and middle, it sets none.
func (t *Tokenizer) readInfill(v *vocabulary) {
	var found [5]int32
	for i, keys := range infillKeys {
		found[i] = none
		for _, key := range keys {
			if id := v.special(key); id != none && found[i] == none {
				found[i] = id
			}
		}
	}
	for _, names := range infillNames {
		for i, name := range names {
			if id, ok := t.ids[name]; ok && found[i] == none {
				found[i] = id
			}
		}
	}
	t.infill = Infill{found[0], found[1], found[2], found[3], found[4]}
	if min(found[0], found[1], found[2]) == none { // none is less than every token
		t.infill = Infill{none, none, none, none, none}
	}
}

// IsMark reports whether a token marks a part of a prompt. A model that generates one has ended its text.
func (m Infill) IsMark(id int32) bool {
	return id != none && (id == m.Prefix || id == m.Suffix || id == m.Middle || id == m.Repository || id == m.File)
}
