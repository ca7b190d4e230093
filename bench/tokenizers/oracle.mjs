// node oracle.mjs NAME: encodes and decodes texts.jsonl by the tokenizer in folder NAME, and writes NAME.out.
import fs from 'node:fs'
import { Tokenizer } from '@huggingface/tokenizers'

const name = process.argv[2]
const json = file => JSON.parse(fs.readFileSync(`${name}/${file}`, 'utf8'))
const tokenizer = new Tokenizer(json('tokenizer.json'), json('tokenizer_config.json'))
const lines = fs.readFileSync('texts.jsonl', 'utf8').split('\n').filter(line => line !== '')
fs.writeFileSync(`${name}.out`, lines.map(line => {
    const { ids } = tokenizer.encode(JSON.parse(line), { add_special_tokens: false })
    const text = ids.length === 0 ? '' : tokenizer.decode(ids, { skip_special_tokens: true, clean_up_tokenization_spaces: false })
    return JSON.stringify([ids, text]) + '\n'
}).join(''))
