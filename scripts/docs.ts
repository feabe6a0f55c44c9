/** Writes the generated documents: `npm run docs`. */
import { mkdir, writeFile } from 'node:fs/promises';
import { references } from './docs/references.ts';

await mkdir('docs/reference/checks', { recursive: true });
for (const [file, text] of await references()) await writeFile(file, text);
