// Runs an ONNX file with onnxruntime: node onnx.mjs MODULES MODEL INPUT SHAPE OUT NAMES [TEXTS]
// INPUT: float32 of all samples; SHAPE: of one sample, "1,28,28". TEXTS: JSON, the texts of each
// sample, input "categories". NAMES: of outputs, "scores,logits". Writes OUT.scores and OUT.logits
// then, float32 of all samples.
import {readFileSync, writeFileSync} from 'node:fs';
import {createRequire} from 'node:module';

const [modules, model, input, shape, out, names, textFile] = process.argv.slice(2);
const ort = createRequire(modules + '/')('onnxruntime-web');
ort.env.wasm.numThreads = 1;
ort.env.logLevel = 'error';

const session = await ort.InferenceSession.create(readFileSync(model));
const bytes = readFileSync(input);
const values = new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
const extents = shape.split(',').map(Number);
const size = extents.reduce((a, b) => a * b);
const samples = values.length / size;
const texts = textFile ? JSON.parse(readFileSync(textFile, 'utf8')) : null;
const results = Object.fromEntries(names.split(',').map((name) => [name, []]));
for (let at = 0; at < samples; at += 500) {
  const end = Math.min(at + 500, samples);
  const tensor = new ort.Tensor('float32', values.slice(at * size, end * size), [end - at, ...extents]);
  const inputs = {input: tensor};
  if (texts) inputs.categories = new ort.Tensor('string', texts.slice(at, end).flat(), [end - at, texts[0].length]);
  const outputs = await session.run(inputs);
  for (const name in results) results[name].push(Buffer.from(outputs[name].data.slice().buffer));
}
for (const name in results) writeFileSync(`${out}.${name}`, Buffer.concat(results[name]));
