// Asks for the template named in argv[2] and prints whether it built it; with argv[3] = hang it never finishes building.
import { ensureTemplate } from 'local-stack/testing';

let isBuilder = false;
await ensureTemplate(process.argv[2], async () => {
  isBuilder = true;
  if (process.argv[3] !== 'hang') return;
  process.stdout.write('"preparing"\n');
  await new Promise((resolve) => setTimeout(resolve, 2 ** 30));
});
process.stdout.write(`${JSON.stringify({ isBuilder })}\n`);
