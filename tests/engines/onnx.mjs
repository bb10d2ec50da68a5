// Runs an ONNX file with onnxruntime: node onnx.mjs MODULES MODEL INPUT TYPE SHAPE OUT NAMES [TEXTS]
// INPUT: all samples as TYPE, float32 or float64; SHAPE: of one sample, "1,28,28". TEXTS: JSON, the
// texts of each sample, input "categories". NAMES: of outputs, "scores,logits". Writes OUT.scores
// and OUT.logits then, of all samples in the output's own type.
import {readFileSync, writeFileSync} from 'node:fs';
import {createRequire} from 'node:module';

const [modules, model, input, type, shape, out, names, textFile] = process.argv.slice(2);
const ort = createRequire(modules + '/')('onnxruntime-web');
ort.env.wasm.numThreads = 1;
ort.env.logLevel = 'error';

const session = await ort.InferenceSession.create(readFileSync(model));
const bytes = readFileSync(input);
const Values = type === 'float64' ? Float64Array : Float32Array;
const values = new Values(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
const extents = shape.split(',').map(Number);
const size = extents.reduce((a, b) => a * b);
const samples = values.length / size;
const texts = textFile ? JSON.parse(readFileSync(textFile, 'utf8')) : null;
const results = Object.fromEntries(names.split(',').map((name) => [name, []]));
for (let at = 0; at < samples; at += 500) {
  const end = Math.min(at + 500, samples);
  const tensor = new ort.Tensor(type, values.slice(at * size, end * size), [end - at, ...extents]);
  const inputs = {input: tensor};
  if (texts) inputs.categories = new ort.Tensor('string', texts.slice(at, end).flat(), [end - at, texts[0].length]);
  const outputs = await session.run(inputs);
  for (const name in results) results[name].push(Buffer.from(outputs[name].data.slice().buffer));
}
for (const name in results) writeFileSync(`${out}.${name}`, Buffer.concat(results[name]));
