/** Generates `webhook-config/` or the folder of the first argument, and removes other files there. */
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import packageJson from '../package.json' with { type: 'json' };
import { manifestFiles } from '../src/install/kustomize.ts';

const OUT = process.argv[2] ?? 'webhook-config';

await rm(OUT, { recursive: true, force: true });
for (const [path, text] of manifestFiles(packageJson)) {
  const file = join(OUT, path);
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, text);
}
