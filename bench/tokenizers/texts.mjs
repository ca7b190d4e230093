// node texts.mjs N SEED SOURCE: writes N random texts to texts.jsonl. SOURCE is a checkout of vkc, for code and prose.
import fs from 'node:fs'

const [count, seed, source] = [Number(process.argv[2]), BigInt(process.argv[3]), process.argv[4]]
const mask = (1n << 64n) - 1n
let state = seed

// random returns a number below n, by splitmix64.
function random(n) {
    state = (state + 0x9e3779b97f4a7c15n) & mask
    let z = state
    z = ((z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n) & mask
    z = ((z ^ (z >> 27n)) * 0x94d049bb133111ebn) & mask
    return Number((z ^ (z >> 31n)) % BigInt(n))
}
const pick = list => list[random(list.length)]
const repeat = (most, make) => Array.from({ length: 1 + random(most) }, make).join('')

// The characters of each script.
const scripts = 'Adlam Ahom Arabic Armenian Bengali Bopomofo Braille Cherokee Common Coptic Cuneiform Cyrillic Deseret Devanagari Egyptian_Hieroglyphs Ethiopic Georgian Gothic Greek Gujarati Gurmukhi Han Hangul Hebrew Hiragana Inherited Javanese Kannada Katakana Khmer Lao Latin Malayalam Mongolian Myanmar Nko Ogham Oriya Runic Sinhala Syriac Tamil Telugu Thaana Thai Tibetan Tifinagh Vai Yi'
    .split(' ').map(name => {
        const is = new RegExp(`\\p{Script=${name}}`, 'u'), list = []
        for (let c = 0; c < 0x110000; c++) if (is.test(String.fromCodePoint(c))) list.push(String.fromCodePoint(c))
        return list
    })
const lines = name => fs.readFileSync(`${source}/${name}`, 'utf8').split('\n').filter(line => line !== '')
const code = [...lines('frontend/tokenizer/kinds.go'), ...lines('golden/llm/make.py')]
const prose = [...lines('docs/GUIDE.md'), ...lines('docs/RATIONALE.md')]
const emoji = ['😀', '👩‍👩‍👧', '🇩🇪', '👍🏽', '❤️', '1️⃣', 'é', 'e\u0301', 'ñ', 'n\u0303', 'Å', '\u212b', '각', '\u1100\u1161\u11a8', 'ｱﾞ',
    'ﬁ', '²', 'Ⅳ', 'ſ', '\'ſ', '\'S', '\'LL', 'İ', 'ß', 'Σ', 'ς']
const white = [' ', '  ', '\t', '\n', '\r\n', '\r', '\u00a0', '\u3000', '\u2003', '\v', '\f', '\u0085', '\u2028', '\u200b',
    '\ufeff', 'a', 'b1', ' x']
const words = ['don\'t', 'I\'LL', 'we\'ve', 'THEY\'RE', 'it\'s', '\'tis', 'x\'s\'', 'camelCase', 'HTTPServer', 'snake_case',
    'foo.bar()', '<|im_end|>', '<bos>', 'a', 'Hello', 'WORLD', 'naïve', '日本語', '中文', '한국어', 'ไทย', 'हिन्दी', 'العربية', '🙂']
const kinds = [
    () => { const chars = pick(scripts); return repeat(12, () => repeat(8, () => pick(chars)) + pick([' ', '', '  ', '\n', '. '])) },
    () => repeat(20, () => pick(pick(scripts))),
    () => repeat(10, () => pick(emoji)),
    () => repeat(30, () => String.fromCharCode(random(32))),
    () => repeat(12, () => pick(white)),
    () => repeat(8, () => repeat(12, () => String(random(10))) + pick(['', ' ', '.', ',', '/', '-', '٣', '५', 'Ⅷ', '½'])),
    () => repeat(6, () => pick(code) + '\n'),
    () => { const line = pick(prose), at = random(line.length); return line.slice(at, at + 1 + random(120)) },
    () => repeat(40, () => String.fromCharCode(32 + random(95))),
    () => repeat(10, () => pick(words) + pick([' ', '', ', ', '! ', '\n', '...', '?'])),
]
fs.writeFileSync('texts.jsonl', Array.from({ length: count }, (_, i) =>
    JSON.stringify(kinds[i % kinds.length]().toWellFormed()) + '\n').join(''))
