/**
 * Builds the bundled program, the playground, and the public exports with declarations in `dist/` or in the folder in
 * the first argument.
 */
import { readFileSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { build } from 'esbuild';
import ts from 'typescript';
import { bundlePage } from '../src/cli/output/bundle.ts';
import { renderPage } from '../src/cli/output/html.ts';
import { bundleProgram, packageFolders } from './bundle.ts';
import { collectLicenses } from './licenses.ts';

const OUT = process.argv[2] ?? 'dist';
const LIBRARIES = {
  pss: 'src/policy/pss/library.ts',
  scc: 'src/policy/scc/library.ts',
  psa: 'src/policy/psa/library.ts',
  rbac: 'src/policy/rbac/library.ts',
};

/**
 * Imports of source files in declarations. The compiler keeps the .ts extension, which most consumers cannot resolve.
 */
const SOURCE_NAME = /(\bfrom |\bimport\()('\.[^']*)\.ts(')/g;

/** The import of client-node models in a declaration, and the condition of a type for dates. */
const CLIENT_NODE = /^import type \{ ([^}]+) \} from '@kubernetes\/client-node';\n/m;
const DATE_TYPE = 'T extends Date ? string :';

await rm(OUT, { recursive: true, force: true });
const packages = new Set([...(await bundleProgram(OUT)), ...(await buildPlayground())]);
await writeFile(join(OUT, 'LICENSES.txt'), await collectLicenses([...packages]));
await bundleLibraries();
emitDeclarations(Object.values(LIBRARIES));

/** Writes the playground as one file that needs no server. Returns the folders of the bundled packages. */
async function buildPlayground(): Promise<readonly string[]> {
  const page = await bundlePage('playground');
  await mkdir(join(OUT, 'playground'));
  await writeFile(
    join(OUT, 'playground/index.html'),
    renderPage(page, { title: 'Portcullis playground', opensFiles: true }),
  );
  return packageFolders(page.inputs);
}

/** Bundles the libraries for any JavaScript runtime, without imports. */
async function bundleLibraries(): Promise<void> {
  await build({
    entryPoints: LIBRARIES,
    outdir: OUT,
    bundle: true,
    format: 'esm',
    platform: 'neutral',
    target: 'es2022',
    legalComments: 'none',
    logLevel: 'warning',
  });
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
    files.writeFile(path, withModels(text.replaceAll(SOURCE_NAME, '$1$2.js$3')), false);
  });
  for (const diagnostic of diagnostics) fail(diagnostic);
}

/**
 * Replaces the client-node imports with its models, so the package has no dependencies. The models of client-node
 * contain dates, but API objects contain strings, so the libraries accept both.
 */
function withModels(declarations: string): string {
  const [line, names = ''] = CLIENT_NODE.exec(declarations) ?? [];
  if (line === undefined) return declarations;
  const hasDates = declarations.includes(DATE_TYPE);
  if (!hasDates && declarations.includes('type Wire<')) throw new Error(`Wire does not contain "${DATE_TYPE}"`);
  const models = new Map([
    ['IntOrString', 'type IntOrString = number | string;\n'],
    ['V1MicroTime', 'type V1MicroTime = Date;\n'],
  ]);
  for (const name of names.split(', ')) readModel(name, models);
  return `${declarations.replace(line, '').replace(DATE_TYPE, 'T extends Date ? string | Date :')}${[...models.values()].join('')}`;
}

/** Adds a model and the models of its fields. A model is a class whose fields precede its static members. */
function readModel(name: string, models: Map<string, string>): void {
  if (models.has(name)) return;
  const text = readFileSync(`node_modules/@kubernetes/client-node/dist/gen/models/${name}.d.ts`, 'utf8');
  const [, fields] = /^export declare class \w+ \{\n([^]*?)^ +static /m.exec(text) ?? [];
  if (fields === undefined) throw new Error(`${name} of client-node is not a class with fields and static members`);
  models.set(name, `interface ${name} {\n${fields}}\n`);
  for (const [, used = ''] of text.matchAll(/^import \{ (\w+) \}/gm)) readModel(used, models);
}

function fail({ messageText }: ts.Diagnostic): never {
  throw new Error(ts.flattenDiagnosticMessageText(messageText, '\n'));
}
