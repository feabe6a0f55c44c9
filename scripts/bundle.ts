/** Bundles the program as chunks for Node, and as one file for the single executable. */
import { chmod, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { build, type BuildOptions, type Metafile, type Plugin } from 'esbuild';
import { bundlePage } from '../src/cli/output/bundle.ts';

/**
 * Imports of client-node's KubeConfig for typed clients and proxies, which are not needed because the program has its
 * own transport.
 */
const UNUSED_IMPORTS = /^(?:undici|socks|socks-proxy-agent|hpagent|\.\/gen\/index\.js|\.\/middleware\.js)$/;

/** Replaces imports that KubeConfig does not need here with empty modules. These imports would use 30 MB of memory. */
const withoutTypedClients: Plugin = {
  name: 'without-typed-clients',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: UNUSED_IMPORTS }, ({ importer, path }) =>
      importer.endsWith('client-node/dist/config.js') ? { path, namespace: 'unused' } : undefined,
    );
    onLoad({ filter: /.*/, namespace: 'unused' }, () => ({ contents: 'module.exports = {};', loader: 'js' }));
  },
};

/** The pages that commands write. */
const PAGES = ['report', 'fleet'] as const;

/** Embeds the pages, so the program does not need the page sources or a bundler. */
const embeddedPages: Plugin = {
  name: 'embedded-pages',
  setup({ onLoad }) {
    onLoad({ filter: /src\/cli\/output\/bundle\.ts$/ }, async () => {
      const pages = await Promise.all(
        PAGES.map(async (name) => [name, { ...(await bundlePage(name)), inputs: [] }] as const),
      );
      const text = JSON.stringify(Object.fromEntries(pages));
      return { contents: `const pages = ${text};\nexport const bundlePage = (name) => Promise.resolve(pages[name]);` };
    });
  },
};

/** The files of worker threads, by name. */
export const WORKERS = {
  'parse-worker': 'src/cluster/parse-worker.ts',
};

const PROGRAM = {
  plugins: [withoutTypedClients, embeddedPages],
  bundle: true,
  platform: 'node',
  target: 'node22',
  legalComments: 'none',
  logLevel: 'warning',
  minifySyntax: true,
  minifyWhitespace: true,
  metafile: true,
} as const satisfies BuildOptions;

/**
 * Bundles the program with its dependencies, so an image needs no node_modules. Commands are separate chunks that
 * load on demand. Returns the folders of the bundled packages.
 */
export async function bundleProgram(outdir: string): Promise<readonly string[]> {
  const { metafile } = await build({
    ...PROGRAM,
    entryPoints: {
      main: 'src/main.ts',
      // The chunk that starts a worker and the file of the worker are in the same folder.
      ...Object.fromEntries(Object.entries(WORKERS).map(([name, file]) => [`chunks/${name}`, file])),
    },
    outdir,
    chunkNames: 'chunks/[name]-[hash]',
    format: 'esm',
    splitting: true,
    // CommonJS packages load Node modules with require().
    banner: { js: `import{createRequire as makeRequire}from'node:module';const require=makeRequire(import.meta.url);` },
  });
  const main = join(outdir, 'main.js');
  await writeFile(main, `#!/usr/bin/env node\n${await readFile(main, 'utf8')}`);
  await chmod(main, 0o755);
  return await programPackages(metafile);
}

/**
 * Bundles the program and its workers as one CommonJS file each, which is the only format that single executables
 * support.
 */
export async function bundleSingleFile(outdir: string): Promise<void> {
  await build({
    ...PROGRAM,
    entryPoints: { main: 'src/main.ts', ...WORKERS },
    outdir,
    outExtension: { '.js': '.cjs' },
    format: 'cjs',
    // The executable contains the other files of the program as assets. Windows requires a drive in file URLs.
    define: { 'import.meta.url': '"file:///C:/"' },
  });
}

/** Returns the folders of the packages of the program and of its pages. */
async function programPackages({ inputs }: Metafile): Promise<readonly string[]> {
  const pages = await Promise.all(PAGES.map((name) => bundlePage(name)));
  return packageFolders([...Object.keys(inputs), ...pages.flatMap((page) => page.inputs)]);
}

/** Returns the folders of the packages that contain the files. */
export function packageFolders(files: readonly string[]): readonly string[] {
  const folders = files.map((path) => /^.*node_modules\/(@[^/]+\/)?[^/]+/.exec(path)?.[0]);
  return [...new Set(folders)].filter((folder) => folder !== undefined);
}
