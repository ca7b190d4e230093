package speech

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/frontend/tokenizer"
)

// Names of the tokens that control a model.
const (
	endName          = "<|endoftext|>"
	startName        = "<|startoftranscript|>"
	translateName    = "<|translate|>"
	transcribeName   = "<|transcribe|>"
	languageName     = "<|startoflm|>"
	previousName     = "<|startofprev|>"
	noSpeechName     = "<|nospeech|>"
	noCaptionsName   = "<|nocaptions|>" // the older name of noSpeechName
	noTimestampsName = "<|notimestamps|>"
)

// controlNames returns the names of the tokens that follow the text tokens. text is the number of text tokens. The
// order of the names is the same in all models. The number of languages follows from the size of the vocabulary.
func controlNames(c Config, text int) ([]string, error) {
	names := []string{endName, startName}
	last := []string{translateName, transcribeName, languageName, previousName, noSpeechName, noTimestampsName}
	n := c.Vocab - text - len(names) - len(last) - c.timestamps()
	if n < 0 || n > len(Languages) {
		return nil, fmt.Errorf("%d tokens, %d of text: want %d to %d more, which control the model", c.Vocab, text,
			len(names)+len(last)+c.timestamps(), len(names)+len(last)+c.timestamps()+len(Languages))
	}
	for _, l := range Languages[:n] {
		names = append(names, "<|"+l.Code+"|>")
	}
	names = append(names, last...)
	for i := range c.timestamps() {
		names = append(names, fmt.Sprintf("<|%d.%02d|>", i/50, i%50*2)) // one every 0.02 seconds
	}
	return names, nil
}

// timestamps returns the number of timestamps: one at the beginning of a window, and one after each position.
func (c Config) timestamps() int { return c.AudioContext + 1 }

// Tokens are the tokens that control a model.
type Tokens struct {
	End, Start, Translate, Transcribe, Previous, NoSpeech, NoTimestamps int32

	// Timestamps is the first of the timestamps, and the others follow it: see Config.Time.
	Timestamps, LastTimestamp int32

	// Languages has the tokens of languages, by code. A model of English alone has them too, but does not use them.
	Languages map[string]int32

	// Multilingual means that the model is told the language and whether to translate.
	Multilingual bool

	// Suppressed lists tokens that the model never writes, and SuppressedFirst further ones that it does not write
	// first.
	Suppressed, SuppressedFirst []int32
}

// NewTokens returns the tokens that control a speech model, which it finds by name in the vocabulary.
func NewTokens(c Config, tok *tokenizer.Tokenizer) (*Tokens, error) {
	t := &Tokens{Languages: map[string]int32{}}
	var err error
	find := func(names ...string) int32 {
		for _, name := range names {
			if id, ok := tok.ID(name); ok && int(id) < c.Vocab {
				return id
			}
		}
		err = errors.Join(err, fmt.Errorf("speech: the vocabulary has no token %s", strings.Join(names, " or ")))
		return 0
	}
	t.End, t.Start = find(endName), find(startName)
	t.Translate, t.Transcribe = find(translateName), find(transcribeName)
	t.Previous, t.NoSpeech = find(previousName), find(noSpeechName, noCaptionsName)
	t.NoTimestamps = find(noTimestampsName)
	if err != nil {
		return nil, err
	}
	t.Timestamps = t.NoTimestamps + 1
	t.LastTimestamp = t.Timestamps + int32(c.timestamps()) - 1
	if int(t.LastTimestamp) >= c.Vocab {
		return nil, fmt.Errorf("speech: %d tokens after %s: want %d timestamps", c.Vocab-int(t.Timestamps),
			noTimestampsName, c.timestamps())
	}
	for _, l := range Languages {
		if id, ok := tok.ID("<|" + l.Code + "|>"); ok && id > t.Start && id < t.Translate {
			t.Languages[l.Code] = id
		}
	}
	// The vocabulary of GPT-2 is for English alone. It has one token less than the vocabulary of all languages.
	t.Multilingual = t.End != gpt2End && len(t.Languages) > 1
	t.setSuppressed(c, tok)
	return t, nil
}

// gpt2End is the number of the token that ends a text in GPT-2's vocabulary.
const gpt2End = 50256

// nonSpeech lists texts that transcripts of speech do not have: brackets, signs of speakers, and notes of music.
const nonSpeech = "\" # ( ) * + / : ; < = > @ [ \\ ] ^ _ ` { | } ~ 「 」 『 』 << >> <<< >>> -- --- -( -[ (' (\" (( )) " +
	"((( ))) [[ ]] {{ }} ♪♪ ♪♪♪"

// musical lists signs of music. A model does not even write the first of several tokens of such a sign.
const musical = "♩ ♪ ♫ ♬ ♭ ♮ ♯"

// setSuppressed sets the tokens that the model does not write, from its file, or else from the definition.
func (t *Tokens) setSuppressed(c Config, tok *tokenizer.Tokenizer) {
	t.Suppressed, t.SuppressedFirst = c.Suppressed, c.SuppressedFirst
	encode := func(text string) []int32 { return tok.Encode(text, tokenizer.Options{}) }
	if t.SuppressedFirst == nil {
		t.SuppressedFirst = append(encode(" "), t.End)
	}
	if t.Suppressed == nil {
		t.Suppressed = []int32{}
		for _, sign := range []string{" -", " '"} { // inside of words they are fine
			ids := encode(sign)
			t.Suppressed = append(t.Suppressed, ids[:min(1, len(ids))]...)
		}
		for _, list := range []string{nonSpeech, musical} {
			for sign := range strings.FieldsSeq(list) {
				for _, text := range []string{sign, " " + sign} {
					// Notes are of several tokens: the first is for them alone.
					if ids := encode(text); len(ids) == 1 || len(ids) > 1 && list == musical {
						t.Suppressed = append(t.Suppressed, ids[0])
					}
				}
			}
		}
	}
	t.Suppressed = append(slices.Clone(t.Suppressed), t.Start, t.Translate, t.Transcribe, t.Previous, t.NoSpeech)
	if id, ok := tok.ID(languageName); ok && int(id) < c.Vocab {
		t.Suppressed = append(t.Suppressed, id)
	}
	slices.Sort(t.Suppressed)
	t.Suppressed = slices.Compact(t.Suppressed)
}

// IsTimestamp reports whether a token is a timestamp.
func (t *Tokens) IsTimestamp(id int32) bool { return id >= t.Timestamps && id <= t.LastTimestamp }

// Time returns the sample of the window that a timestamp means.
func (t *Tokens) Time(id int32) int { return int(id-t.Timestamps) * SamplesPerPosition }

// Language is a language that models know.
type Language struct {
	Code, Name string // such as "en", "english"
}

// LanguageNamed returns the language with a code or an English name, and whether there is one. Case does not matter.
func LanguageNamed(name string) (l Language, ok bool) {
	name = strings.ToLower(name)
	if code, ok := otherNames[name]; ok {
		name = code
	}
	for _, l := range Languages {
		if l.Code == name || l.Name == name {
			return l, true
		}
	}
	return Language{}, false
}

// otherNames maps further names of languages to codes.
var otherNames = map[string]string{"burmese": "my", "valencian": "ca", "flemish": "nl", "haitian": "ht",
	"letzeburgesch": "lb", "pushto": "ps", "panjabi": "pa", "moldavian": "ro", "moldovan": "ro", "sinhalese": "si",
	"castilian": "es", "mandarin": "zh"}

// Languages lists the languages in the order of their tokens. Models before large-v3 do not know the last.
var Languages = func() (list []Language) {
	for pair := range strings.FieldsSeq(`en:english zh:chinese de:german es:spanish ru:russian ko:korean fr:french
		ja:japanese pt:portuguese tr:turkish pl:polish ca:catalan nl:dutch ar:arabic sv:swedish it:italian
		id:indonesian hi:hindi fi:finnish vi:vietnamese he:hebrew uk:ukrainian el:greek ms:malay cs:czech ro:romanian
		da:danish hu:hungarian ta:tamil no:norwegian th:thai ur:urdu hr:croatian bg:bulgarian lt:lithuanian la:latin
		mi:maori ml:malayalam cy:welsh sk:slovak te:telugu fa:persian lv:latvian bn:bengali sr:serbian az:azerbaijani
		sl:slovenian kn:kannada et:estonian mk:macedonian br:breton eu:basque is:icelandic hy:armenian ne:nepali
		mn:mongolian bs:bosnian kk:kazakh sq:albanian sw:swahili gl:galician mr:marathi pa:punjabi si:sinhala km:khmer
		sn:shona yo:yoruba so:somali af:afrikaans oc:occitan ka:georgian be:belarusian tg:tajik sd:sindhi gu:gujarati
		am:amharic yi:yiddish lo:lao uz:uzbek fo:faroese ht:haitian_creole ps:pashto tk:turkmen nn:nynorsk mt:maltese
		sa:sanskrit lb:luxembourgish my:myanmar bo:tibetan tl:tagalog mg:malagasy as:assamese tt:tatar haw:hawaiian
		ln:lingala ha:hausa ba:bashkir jw:javanese su:sundanese yue:cantonese`) {
		code, name, _ := strings.Cut(pair, ":")
		list = append(list, Language{code, strings.ReplaceAll(name, "_", " ")})
	}
	return list
}()
