/** Builds the single executable, which contains Node and the program and needs no other file. */
import { execFile } from 'node:child_process';
import { chmod, copyFile, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { bundleSingleFile, WORKERS } from './bundle.ts';

const run = promisify(execFile);

/** The fuse in the Node executable. It is set when an application is added. */
const FUSE = 'NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2';
const EXAMPLES = 'examples/cluster';

/**
 * Builds the executable from a Node executable, which may be for another platform than this process but must be the
 * same version.
 * @see https://nodejs.org/docs/latest-v24.x/api/single-executable-applications.html
 */
export async function buildExecutable(file: string, node = process.execPath): Promise<void> {
  const isNative = node === process.execPath;
  const folder = await mkdtemp(join(tmpdir(), 'portcullis-executable-'));
  try {
    await bundleSingleFile(folder);
    const config = {
      main: join(folder, 'main.cjs'),
      output: join(folder, 'blob'),
      disableExperimentalSEAWarning: true,
      // V8 rejects a code cache from another platform.
      useCodeCache: isNative,
      assets: {
        'examples.yaml': await writeExamples(folder),
        ...Object.fromEntries(Object.keys(WORKERS).map((name) => [`${name}.cjs`, join(folder, `${name}.cjs`)])),
      },
    };
    await writeFile(join(folder, 'config.json'), JSON.stringify(config));
    await run(process.execPath, ['--experimental-sea-config', join(folder, 'config.json')]);
    await copyFile(node, file);
    await chmod(file, 0o755);
    if (node.endsWith('.exe')) await removeSignature(file);
    if (isNative && process.platform === 'linux') await strip(file);
    // The added application invalidates Node's signature, and macOS runs only signed executables.
    const isApple = isNative && process.platform === 'darwin';
    if (isApple) await run('codesign', ['--remove-signature', file]);
    const options = [`--sentinel-fuse=${FUSE}`, ...(isApple ? ['--macho-segment-name=NODE_SEA'] : [])];
    await run(process.execPath, [
      'node_modules/postject/dist/cli.js',
      ...[file, 'NODE_SEA_BLOB', config.output],
      ...options,
    ]);
    if (isApple) await run('codesign', ['--sign', '-', file]);
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** Removes the debug symbols, which make up a seventh of the size, if binutils is installed. */
async function strip(file: string): Promise<void> {
  try {
    await run('strip', ['--strip-unneeded', file]);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
}

/**
 * Removes the signature of a Windows executable, which the added application invalidates.
 * @see https://learn.microsoft.com/en-us/windows/win32/debug/pe-format#the-attribute-certificate-table-image-only
 */
async function removeSignature(file: string): Promise<void> {
  const content = await readFile(file);
  // The entry of the certificate table, in the optional header of the 64-bit format.
  const entry = content.readUInt32LE(0x3c) + 24 + 144;
  const offset = content.readUInt32LE(entry);
  content.fill(0, entry, entry + 8);
  await writeFile(file, offset === 0 ? content : content.subarray(0, offset));
}

/** Writes the initial objects of the development cluster into one file. */
async function writeExamples(folder: string): Promise<string> {
  const names = (await readdir(EXAMPLES)).sort();
  const texts = await Promise.all(names.map((name) => readFile(join(EXAMPLES, name), 'utf8')));
  const file = join(folder, 'examples.yaml');
  await writeFile(file, texts.join('\n---\n'));
  return file;
}
