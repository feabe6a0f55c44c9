import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

/**
 * Returns the licenses of packages with package names and versions, for distribution with the bundle. Rejects if a
 * package has no license.
 * @param folders the folders of the packages
 */
export async function collectLicenses(folders: readonly string[]): Promise<string> {
  const texts = await Promise.all([...folders].sort().map(formatLicense));
  return texts.join(`\n${'-'.repeat(80)}\n\n`);
}

async function formatLicense(folder: string): Promise<string> {
  const manifest = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')) as Manifest;
  const file = (await readdir(folder)).find((name) => /^(licen[cs]e|copying)/i.test(name));
  const text = file === undefined ? `License: ${manifest.license ?? ''}\n` : await readFile(join(folder, file), 'utf8');
  if (file === undefined && manifest.license === undefined) throw new Error(`no license in ${folder}`);
  return `${manifest.name} ${manifest.version}\n\n${text}`;
}

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly license?: string;
}
