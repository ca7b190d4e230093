// node kinds.mjs OUT: writes tiny tokenizers of each kind, with texts, their tokens and what these decode to. OUT is
// frontend/tokenizer/testdata/json.jsonl. The npm package tokenizers computes them: Hugging Face's program in Rust.
import fs from 'node:fs'
import { createRequire } from 'node:module'

const { Tokenizer } = createRequire(import.meta.url)('tokenizers')

const texts = ['Hello, world!', ' two  spaces\n\ttab ', 'Ünïcödé Ärger ÀÉ', 'e\u0301 ﬁ ² Ⅳ', '日本 中文 カタ', 'a1b22c333', 'x.y,z?! "q"',
    'don\'t we\'ll', '[MASK] a[X]b  [X] c', 'foo▁bar ▁', '', 'ab\u0000c\u200bd\ufeff', '🙂👍🏽', 'UPPER lower MiXed']

// chars returns a vocabulary of characters, and of characters that end a word: so the tokens show where words end.
function chars(...more) {
    const all = new Set()
    for (const text of [...texts, ...more]) {
        for (const form of ['NFC', 'NFD', 'NFKC', 'NFKD']) {
            for (const c of text.normalize(form)) for (const d of [c, c.toLowerCase(), c.toUpperCase()]) for (const e of d) all.add(e)
        }
    }
    for (const c of '▁_Ġ|') all.add(c)
    const list = ['<unk>', ...[...all].sort(), ...[...all].sort().map(c => c + '</w>')]
    return Object.fromEntries(list.map((c, i) => [c, i]))
}
const bpe = { type: 'BPE', unk_token: '<unk>', end_of_word_suffix: '</w>', continuing_subword_prefix: null, fuse_unk: false,
    byte_fallback: false, ignore_merges: false, dropout: null, vocab: chars(), merges: [] }
const added = (content, id, more) => ({ id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: false, ...more })
const cases = {}
const first = Object.keys(bpe.vocab).length // the id of the first added token
const ends = { type: 'BPEDecoder', suffix: '</w>' }
const add = (name, parts) => { cases[name] = { version: '1.0', added_tokens: [], normalizer: null, pre_tokenizer: null, post_processor: null, decoder: ends, model: bpe, ...parts } }

for (const type of ['NFC', 'NFD', 'NFKC', 'NFKD', 'Lowercase']) add(type, { normalizer: { type } })
add('StripAccents', { normalizer: { type: 'Sequence', normalizers: [{ type: 'NFD' }, { type: 'StripAccents' }] } })
add('Strip', { normalizer: { type: 'Strip', strip_left: true, strip_right: true } })
add('Prepend', { normalizer: { type: 'Sequence', normalizers: [{ type: 'Prepend', prepend: '▁' }, { type: 'Replace', pattern: { String: ' ' }, content: '▁' }] } })
add('Replace', { normalizer: { type: 'Replace', pattern: { Regex: '[aeiou]{1,2}| {2,}' }, content: '_' } })
add('BertNormalizer', { normalizer: { type: 'BertNormalizer', clean_text: true, handle_chinese_chars: true, strip_accents: null, lowercase: true } })
add('BertNormalizer, cased', { normalizer: { type: 'BertNormalizer', clean_text: true, handle_chinese_chars: false, strip_accents: null, lowercase: false } })
const split = (pattern, behavior, invert = false) => ({ type: 'Split', pattern, behavior, invert })
for (const behavior of ['Removed', 'Isolated', 'MergedWithPrevious', 'MergedWithNext', 'Contiguous']) {
    add(`Split, ${behavior}`, { pre_tokenizer: split({ Regex: '\\s' }, behavior) })
}
add('Split, text', { pre_tokenizer: split({ String: 'l' }, 'MergedWithPrevious') })
add('Split, inverted', { pre_tokenizer: split({ Regex: '\\p{L}+|\\p{N}' }, 'Removed', true) })
for (const type of ['WhitespaceSplit', 'Whitespace', 'BertPreTokenizer']) add(type, { pre_tokenizer: { type } })
add('Punctuation', { pre_tokenizer: { type: 'Punctuation', behavior: 'Isolated' } })
add('Digits', { pre_tokenizer: { type: 'Digits', individual_digits: true } })
add('Digits, together', { pre_tokenizer: { type: 'Digits', individual_digits: false } })
add('CharDelimiterSplit', { pre_tokenizer: { type: 'CharDelimiterSplit', delimiter: 'o' } })
add('UnicodeScripts', { pre_tokenizer: { type: 'UnicodeScripts' } })
for (const behavior of ['Removed', 'MergedWithPrevious', 'MergedWithNext', 'Contiguous']) add(`Punctuation, ${behavior}`, { pre_tokenizer: { type: 'Punctuation', behavior } })
add('Nmt', { normalizer: { type: 'Nmt' } })
add('Strip, left', { normalizer: { type: 'Strip', strip_left: true, strip_right: false } })
add('ByteLevel, normalizer', { normalizer: { type: 'ByteLevel' } })
add('FixedLength', { pre_tokenizer: { type: 'FixedLength', length: 3 } })
for (const prepend_scheme of ['always', 'never', 'first']) {
    add(`Metaspace, ${prepend_scheme}`, { pre_tokenizer: { type: 'Metaspace', replacement: '▁', prepend_scheme, split: true }, added_tokens: [added('[X]', first)],
        decoder: { type: 'Sequence', decoders: [ends, { type: 'Metaspace', replacement: '▁', prepend_scheme, split: true }] } })
}
add('Sequence', { pre_tokenizer: { type: 'Sequence', pretokenizers: [{ type: 'WhitespaceSplit' }, { type: 'Punctuation', behavior: 'Isolated' }, { type: 'Digits', individual_digits: true }] } })

add('added tokens', { added_tokens: [added('[MASK]', first, { special: true, lstrip: true }), added('[X]', first + 1), added('foo', first + 2, { rstrip: true })] })
add('added words', { added_tokens: [added('ab', first, { single_word: true }), added('two', first + 1, { single_word: true })] })
add('normalized tokens', { normalizer: { type: 'Lowercase' }, added_tokens: [added('hello', first, { normalized: true }), added('UPPER', first + 1)] })

const bytes = []
for (let b = 0; b < 256; b++) bytes.push(b)
let next = 256
const printable = bytes.map(b => (b >= 33 && b <= 126) || (b >= 0xa1 && b !== 0xad) ? String.fromCodePoint(b) : String.fromCodePoint(next++))
const level = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true }
const vocab = [...printable, 'he', 'll', 'hell', 'Ġw', 'Ġwo', 'or', '<|end|>']
const byteLevel = { type: 'BPE', unk_token: null, continuing_subword_prefix: '', end_of_word_suffix: '', fuse_unk: false, byte_fallback: false, ignore_merges: false,
    dropout: null, vocab: Object.fromEntries(vocab.map((t, i) => [t, i])), merges: ['h e', 'l l', 'he ll', 'Ġ w', 'o r', 'Ġw o'] }
add('ByteLevel', { pre_tokenizer: level, decoder: level, model: byteLevel, added_tokens: [added('<|end|>', 262, { special: true })] })
add('ByteLevel, prefix', { pre_tokenizer: { ...level, add_prefix_space: true }, decoder: level, model: byteLevel })
add('ByteLevel, merged words', { pre_tokenizer: level, decoder: level, model: { ...byteLevel, ignore_merges: true, vocab: { ...byteLevel.vocab, 'Ġworld': 263 } } })
add('ByteLevel, NFC', { normalizer: { type: 'NFC' }, pre_tokenizer: level, decoder: level, model: byteLevel })

const pieces = ['<unk>', '<s>', '</s>', ...bytes.map(b => `<0x${b.toString(16).toUpperCase().padStart(2, '0')}>`), '▁', 'a', 'b', 'c', 'o', 'l', 'e', 'H', 'w', 'r', 'd', 'f', '▁w', 'll', 'or', 'ell', 'H▁']
const spaces = { type: 'Sequence', decoders: [{ type: 'Replace', pattern: { String: '▁' }, content: ' ' }, { type: 'ByteFallback' }, { type: 'Fuse' }, { type: 'Strip', content: ' ', start: 1, stop: 0 }] }
add('BPE, byte_fallback', { normalizer: { type: 'Sequence', normalizers: [{ type: 'Prepend', prepend: '▁' }, { type: 'Replace', pattern: { String: ' ' }, content: '▁' }] }, decoder: spaces,
    added_tokens: [added('<unk>', 0, { special: true }), added('<s>', 1, { special: true }), added('</s>', 2, { special: true })],
    model: { ...bpe, end_of_word_suffix: null, fuse_unk: true, byte_fallback: true, vocab: Object.fromEntries(pieces.map((t, i) => [t, i])), merges: [['▁', 'w'], ['l', 'l'], ['e', 'll'], ['o', 'r']] } })
add('BPE, fuse_unk', { pre_tokenizer: { type: 'WhitespaceSplit' }, model: { ...bpe, end_of_word_suffix: null, fuse_unk: true, vocab: { '<unk>': 0, a: 1, b: 2, l: 3, o: 4, lo: 5 }, merges: ['l o'] }, decoder: { type: 'Fuse' } })
add('Unigram', { pre_tokenizer: { type: 'Metaspace', replacement: '▁', prepend_scheme: 'always' }, decoder: { type: 'Metaspace', replacement: '▁', prepend_scheme: 'always' },
    model: { type: 'Unigram', unk_id: 0, byte_fallback: false, vocab: pieces.filter(p => !p.startsWith('<0x')).map((p, i) => [p, i === 0 ? 0 : -3 - i / 7 - p.length / 3]) } })
const words = ['[UNK]', '[CLS]', '[SEP]', '[MASK]', 'hello', 'world', 'two', '##s', 'space', 'a', '##1', '##b', '##22', 'x', '.', ',', '!', 'don', '\'', 't', 'e', '日', '本', 'upper', 'low', '##er', 'foo', '##▁bar']
add('WordPiece', { normalizer: { type: 'BertNormalizer', clean_text: true, handle_chinese_chars: true, strip_accents: null, lowercase: true }, pre_tokenizer: { type: 'BertPreTokenizer' },
    decoder: { type: 'WordPiece', prefix: '##', cleanup: true }, added_tokens: [0, 1, 2, 3].map(i => added(words[i], i, { special: true })),
    model: { type: 'WordPiece', unk_token: '[UNK]', continuing_subword_prefix: '##', max_input_chars_per_word: 100, vocab: Object.fromEntries(words.map((t, i) => [t, i])) } })
add('CTC', { pre_tokenizer: { type: 'Split', pattern: { Regex: '' }, behavior: 'Isolated', invert: false }, decoder: { type: 'CTC', pad_token: 'l', word_delimiter_token: '|', cleanup: true },
    model: { type: 'WordLevel', unk_token: '<unk>', vocab: Object.fromEntries(Object.entries(chars()).filter(([c]) => !c.endsWith('</w>') || c === '<unk>')) } })
add('Unigram, byte_fallback', { pre_tokenizer: { type: 'Metaspace', replacement: '▁', prepend_scheme: 'first', split: true }, decoder: spaces,
    model: { type: 'Unigram', unk_id: 0, byte_fallback: true, vocab: pieces.map((p, i) => [p, i === 0 ? 0 : -3 - i % 11 / 7 - p.length / 3]) } })
add('WordLevel', { pre_tokenizer: { type: 'Whitespace' }, decoder: null, model: { type: 'WordLevel', unk_token: '[UNK]', vocab: Object.fromEntries(['[UNK]', 'Hello', 'world', ',', '!', 'two'].map((t, i) => [t, i])) } })

const out = []
for (const [name, tokenizer] of Object.entries(cases)) {
    let t
    try {
        t = Tokenizer.fromString(JSON.stringify(tokenizer))
        const results = []
        for (const text of texts) {
            const ids = (await t.encode(text, null, { addSpecialTokens: false })).getIds()
            results.push([text, ids, await t.decode(ids, true)])
        }
        out.push(JSON.stringify({ name, tokenizer, results }))
    } catch (e) {
        console.error(name, String(e))
    }
}
fs.writeFileSync(process.argv[2], out.join('\n') + '\n')
