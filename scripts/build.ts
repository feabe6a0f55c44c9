/** Builds `dist/` or the folder of the first argument: the bundled program, and the public exports with declarations. */
import { chmod, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import ts from 'typescript';
import { build, type BuildOptions, type Plugin } from 'esbuild';
import { collectLicenses } from './licenses.ts';

const OUT = process.argv[2] ?? 'dist';
const LIBRARIES = {
  pss: 'src/policy/pss/index.ts',
  scc: 'src/policy/scc/index.ts',
  psa: 'src/policy/rollout/scc-level.ts',
  rbac: 'src/policy/rbac/index.ts',
};

/** Imports of source files in declarations. The compiler keeps the extension .ts, which most consumers cannot resolve. */
const SOURCE_NAME = /(\bfrom |\bimport\()('\.[^']*)\.ts(')/g;

const COMMON = {
  bundle: true,
  format: 'esm',
  outdir: OUT,
  legalComments: 'none',
  logLevel: 'warning',
} as const satisfies BuildOptions;

/** The imports of client-node's KubeConfig for typed clients and proxies. The program has its own transport. */
const UNUSED_IMPORTS = /^(?:undici|socks|socks-proxy-agent|hpagent|\.\/gen\/index\.js|\.\/middleware\.js)$/;

/** Replaces imports that KubeConfig does not use here by empty modules. They occupy 30 MB of memory. */
const withoutTypedClients: Plugin = {
  name: 'without-typed-clients',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: UNUSED_IMPORTS }, ({ importer, path }) =>
      importer.endsWith('client-node/dist/config.js') ? { path, namespace: 'unused' } : undefined,
    );
    onLoad({ filter: /.*/, namespace: 'unused' }, () => ({ contents: 'module.exports = {};', loader: 'js' }));
  },
};

await rm(OUT, { recursive: true, force: true });
await writeFile(join(OUT, 'LICENSES.txt'), await collectLicenses(await bundleProgram()));
await bundleLibraries();
emitDeclarations(Object.values(LIBRARIES));

/**
 * Bundles the program with its dependencies, so that an image needs no node_modules. Commands are separate chunks that
 * load on demand. Returns the folders of the bundled packages.
 */
async function bundleProgram(): Promise<string[]> {
  const { metafile } = await build({
    ...COMMON,
    entryPoints: { main: 'src/main.ts' },
    plugins: [withoutTypedClients],
    chunkNames: 'chunks/[name]-[hash]',
    platform: 'node',
    target: 'node24',
    splitting: true,
    minifySyntax: true,
    minifyWhitespace: true,
    metafile: true,
    // CommonJS packages load Node modules by require().
    banner: { js: `import{createRequire as makeRequire}from'node:module';const require=makeRequire(import.meta.url);` },
  });
  const main = join(OUT, 'main.js');
  await writeFile(main, `#!/usr/bin/env node\n${await readFile(main, 'utf8')}`);
  await chmod(main, 0o755);
  const folders = Object.keys(metafile.inputs).map((path) => /^.*node_modules\/(@[^/]+\/)?[^/]+/.exec(path)?.[0]);
  return [...new Set(folders)].filter((folder) => folder !== undefined);
}

/** Bundles the libraries for any JavaScript runtime, without imports. */
async function bundleLibraries(): Promise<void> {
  await build({ ...COMMON, entryPoints: LIBRARIES, platform: 'neutral', target: 'es2022' });
}

function emitDeclarations(entries: readonly string[]): void {
  const config = ts.getParsedCommandLineOfConfigFile(
    'tsconfig.json',
    {},
    { ...ts.sys, onUnRecoverableConfigFileDiagnostic: fail },
  );
  const options = {
    ...config?.options,
    noEmit: false,
    declaration: true,
    emitDeclarationOnly: true,
    rootDir: 'src',
    outDir: join(OUT, 'types'),
  };
  const files = ts.createCompilerHost(options);
  const { diagnostics } = ts.createProgram(entries, options, files).emit(undefined, (path, text) => {
    files.writeFile(path, text.replaceAll(SOURCE_NAME, '$1$2.js$3'), false);
  });
  for (const diagnostic of diagnostics) fail(diagnostic);
}

function fail({ messageText }: ts.Diagnostic): never {
  throw new Error(ts.flattenDiagnosticMessageText(messageText, '\n'));
}
