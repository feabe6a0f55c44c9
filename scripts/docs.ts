/** Writes the generated documents: `npm run docs`. */
import { writeFile } from 'node:fs/promises';
import { references } from './docs/references.ts';

for (const [file, text] of await references()) await writeFile(file, text);
