// Runs ONNX files with onnxruntime: node onnx.mjs MODULES JOBS
// JOBS: a JSON list of {model, input, type, shape, out, outputs, texts}. input: a file of all samples
// as `type`, float32 or float64; shape: of one sample. texts: of each sample, input "categories"; or
// null. Writes OUT.scores and so on, one file for each of `outputs`, of all samples in its own type.
import {readFileSync, writeFileSync} from 'node:fs';
import {createRequire} from 'node:module';

const [modules, jobs] = process.argv.slice(2);
const ort = createRequire(modules + '/')('onnxruntime-web');
ort.env.wasm.numThreads = 1;
ort.env.logLevel = 'error';

async function run({model, input, type, shape, out, outputs, texts}) {
  const session = await ort.InferenceSession.create(readFileSync(model));
  const bytes = readFileSync(input);
  const Values = type === 'float64' ? Float64Array : Float32Array;
  const values = new Values(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
  const size = shape.reduce((a, b) => a * b, 1);
  const samples = texts ? texts.length : values.length / size;
  const results = Object.fromEntries(outputs.map((name) => [name, []]));
  for (let at = 0; at < samples; at += 500) {
    const end = Math.min(at + 500, samples);
    const inputs = {};
    if (size > 0) inputs.input = new ort.Tensor(type, values.slice(at * size, end * size), [end - at, ...shape]);
    if (texts) inputs.categories = new ort.Tensor('string', texts.slice(at, end).flat(), [end - at, texts[0].length]);
    const given = await session.run(inputs);
    for (const name of outputs) results[name].push(Buffer.from(given[name].data.slice().buffer));
  }
  for (const name of outputs) writeFileSync(`${out}.${name}`, Buffer.concat(results[name]));
  await session.release();
}

for (const job of JSON.parse(readFileSync(jobs, 'utf8'))) await run(job);
