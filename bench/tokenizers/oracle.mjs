// node oracle.mjs NAME PROGRAM: encodes and decodes texts.jsonl by the tokenizer in folder NAME, and writes
// NAME.PROGRAM.out. PROGRAM is js, Hugging Face's program @huggingface/tokenizers, or rust, its program tokenizers.
import fs from 'node:fs'
import { createRequire } from 'node:module'
import * as js from '@huggingface/tokenizers'

const [name, program] = process.argv.slice(2)
const json = file => JSON.parse(fs.readFileSync(`${name}/${file}`, 'utf8'))
const programs = {
    js() {
        const t = new js.Tokenizer(json('tokenizer.json'), json('tokenizer_config.json'))
        return [text => t.encode(text, { add_special_tokens: false }).ids,
            ids => ids.length === 0 ? '' : t.decode(ids, { skip_special_tokens: true, clean_up_tokenization_spaces: false })]
    },
    rust() {
        const { Tokenizer } = createRequire(import.meta.url)('tokenizers')
        const t = Tokenizer.fromString(JSON.stringify(json('tokenizer.json')))
        return [async text => (await t.encode(text, null, { addSpecialTokens: false })).getIds(), ids => t.decode(ids, true)]
    },
}
const [encode, decode] = programs[program]()
const out = []
for (const line of fs.readFileSync('texts.jsonl', 'utf8').split('\n').filter(line => line !== '')) {
    const ids = await encode(JSON.parse(line))
    out.push(JSON.stringify([ids, await decode(ids)]) + '\n')
}
fs.writeFileSync(`${name}.${program}.out`, out.join(''))
