/** The container image: rules for its Dockerfile, and its stages executed in folders without a container engine. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, readdir, readFile, realpath, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { PORTS } from '../src/install/deployment.ts';
import { serve } from './support/serve-process.ts';

const run = promisify(execFile);

interface Package {
  readonly version: string;
  readonly description: string;
  readonly license: string;
  readonly devDependencies: Readonly<Record<string, string>>;
}

interface Instruction {
  /** In upper case, for example `COPY`. */
  readonly name: string;
  /** The values of `--flag=value`. */
  readonly flags: ReadonlyMap<string, string>;
  readonly text: string;
}

interface Stage {
  /** The image of `FROM` with unresolved arguments. */
  readonly image: string;
  readonly as: string | undefined;
  readonly from: Instruction;
  readonly instructions: readonly Instruction[];
}

interface Dockerfile {
  /** The `ARG` instructions before the first stage, with their defaults. */
  readonly args: ReadonlyMap<string, string>;
  readonly stages: readonly Stage[];
}

/** Parses a Dockerfile: instructions, continued lines, comments, stages. */
function readDockerfile(text: string): Dockerfile {
  const lines = text.split('\n').filter((line) => !/^\s*(#|$)/.test(line));
  const instructions = lines
    .join('\n')
    .replace(/\\\n\s*/g, '')
    .split('\n')
    .map(readInstruction);
  const starts = instructions.flatMap(({ name }, index) => (name === 'FROM' ? [index] : []));
  return {
    args: new Map(instructions.slice(0, starts[0]).map((one) => readArg(one))),
    stages: starts.map((start, index) => readStage(instructions.slice(start, starts[index + 1]))),
  };
}

function readInstruction(line: string): Instruction {
  const [, name = '', rest = ''] = /^(\w+)\s+(.*)$/.exec(line) ?? [];
  const flags = new Map<string, string>();
  const text = rest.replace(/^(?:--[\w-]+=\S+\s+)+/, (all) => {
    for (const [, flag = '', value = ''] of all.matchAll(/--([\w-]+)=(\S+)/g)) flags.set(flag, value);
    return '';
  });
  return { name: name.toUpperCase(), flags, text };
}

/** Returns name and default of an `ARG` instruction. */
function readArg({ text }: Instruction): [name: string, fallback: string] {
  const [, name = '', fallback = ''] = /^(\w+)(?:=(.*))?$/.exec(text) ?? [];
  return [name, fallback];
}

function readStage([from, ...instructions]: readonly Instruction[]): Stage {
  if (!from) throw new Error('a stage begins with FROM');
  const [, image = '', as] = /^(\S+)(?: AS (\S+))?$/i.exec(from.text) ?? [];
  return { image, as, from, instructions };
}

/** Returns the words of an instruction in exec form; `undefined` for the shell form. */
function parseExecForm({ text }: Instruction): readonly string[] | undefined {
  return text.startsWith('[') ? (JSON.parse(text) as string[]) : undefined;
}

/** Returns the sources and the target of a `COPY` instruction. */
function parseCopy({ text }: Instruction): { readonly sources: readonly string[]; readonly target: string } {
  const words = text.split(/\s+/);
  return { sources: words.slice(0, -1), target: words.at(-1) ?? '' };
}

const dockerfile = readDockerfile(await readFile('Dockerfile', 'utf8'));
const packageJson = JSON.parse(await readFile('package.json', 'utf8')) as Package;
const ignored = (await readFile('.dockerignore', 'utf8')).trim().split('\n');
/** The files in the build context. */
const context = ignored.slice(1).map((line) => line.slice(1));
const [build, image] = dockerfile.stages as [Stage, Stage];

function all(name: string, { instructions }: Stage): readonly Instruction[] {
  return instructions.filter((one) => one.name === name);
}

/** Parses the only instruction of a name. */
function parseOnly<T>(name: string, stage: Stage, read: (instruction: Instruction) => T): T {
  const [one, ...others] = all(name, stage);
  assert.ok(one && others.length === 0, `one ${name}`);
  return read(one);
}

describe('Dockerfile', () => {
  test('has a build stage and a runtime stage with configurable base images', () => {
    assert.deepEqual(
      dockerfile.stages.map(({ image: from }) => from),
      ['${BUILD_IMAGE}', '${RUNTIME_IMAGE}'],
    );
    const { node = '' } = packageJson.devDependencies;
    assert.deepEqual(Object.fromEntries(dockerfile.args), {
      BUILD_IMAGE: `docker.io/library/node:${node}-trixie-slim`,
      RUNTIME_IMAGE: `gcr.io/distroless/nodejs${node.split('.')[0] ?? ''}-debian13:nonroot`,
    });
  });

  test('builds on the build platform only', () => {
    assert.equal(build.from.flags.get('platform'), '$BUILDPLATFORM');
    assert.equal(image.from.flags.get('platform'), undefined);
    assert.deepEqual(all('RUN', image), []);
  });

  test('installs locked packages without their scripts', () => {
    const commands = all('RUN', build).map(({ text }) => text);
    assert.deepEqual(commands, ['npm ci --ignore-scripts --no-audit --no-fund', 'npm run build']);
  });

  test('runs as non-root user without a shell', () => {
    assert.equal(
      parseOnly('USER', image, ({ text }) => text),
      '65532:65532',
    );
    const [program = ''] = parseOnly('ENTRYPOINT', image, parseExecForm) ?? [];
    assert.match(program, /^\//);
    assert.notEqual(parseOnly('CMD', image, parseExecForm), undefined);
    assert.deepEqual(
      image.instructions.slice(-4).map(({ name }) => name),
      ['USER', 'EXPOSE', 'ENTRYPOINT', 'CMD'],
    );
  });

  test('has labels and arguments', () => {
    const labels = parseOnly('LABEL', image, ({ text }) =>
      Object.fromEntries([...text.matchAll(/([\w.]+)="([^"]*)"/g)].map(([, key = '', value = '']) => [key, value])),
    );
    assert.deepEqual(labels, {
      'org.opencontainers.image.title': 'portcullis',
      'org.opencontainers.image.description': packageJson.description,
      'org.opencontainers.image.licenses': packageJson.license,
      'org.opencontainers.image.version': '${VERSION}',
      'org.opencontainers.image.revision': '${REVISION}',
    });
    assert.deepEqual(Object.fromEntries(all('ARG', image).map(readArg)), {
      VERSION: packageJson.version,
      REVISION: 'unknown',
    });
  });

  test('exposes the ports of the manifests', () => {
    assert.equal(
      parseOnly('EXPOSE', image, ({ text }) => text),
      `${PORTS.reviews.port} ${PORTS.probes.port}`,
    );
  });

  test('uses only known instructions and copies only files of the context', () => {
    const known = new Set(['WORKDIR', 'COPY', 'RUN', 'ARG', 'LABEL', 'USER', 'EXPOSE', 'ENTRYPOINT', 'CMD']);
    for (const stage of dockerfile.stages) {
      for (const { name } of stage.instructions) assert.ok(known.has(name), name);
      for (const copy of all('COPY', stage)) {
        const from = copy.flags.get('from');
        if (from !== undefined) assert.equal(from, build.as);
        else for (const source of parseCopy(copy).sources) assert.ok(context.includes(source), source);
      }
    }
    assert.equal(ignored[0], '*');
    assert.ok(ignored.slice(1).every((line) => /^![\w./-]+$/.test(line)));
  });
});

describe('image', () => {
  let root = '';
  const sources = (): string => join(root, 'src');
  const app = (): string => join(root, 'app');

  /** Executes a `COPY` instruction. */
  async function copy(one: Instruction, into: string): Promise<void> {
    const { sources: named, target } = parseCopy(one);
    for (const source of named) {
      const from = one.flags.has('from') ? source.replace(/^\/src/, sources()) : resolve(source);
      const to = target.endsWith('/') ? join(into, target, basename(source)) : join(into, target);
      await mkdir(dirname(to), { recursive: true });
      await cp(from, to, { recursive: true });
    }
  }

  before(async () => {
    root = await realpath(await mkdtemp(join(tmpdir(), 'portcullis-image-')));
    for (const one of all('COPY', build)) await copy(one, sources());
    // Replaces npm ci, which needs the network.
    await symlink(resolve('node_modules'), join(sources(), 'node_modules'));
    await run('npm', ['run', 'build'], { cwd: sources() });
    await rm(join(sources(), 'node_modules'));
    for (const one of all('COPY', image)) await copy(one, app());
    await rm(sources(), { recursive: true });
  });
  after(() => rm(root, { recursive: true }));

  test('contains the program, examples and licenses', async () => {
    assert.deepEqual((await readdir(app())).sort(), ['LICENSE', 'dist', 'examples', 'package.json']);
    assert.deepEqual((await readdir(join(app(), 'dist'))).sort(), ['LICENSES.txt', 'chunks', 'main.js']);
  });

  test('runs without packages', async () => {
    const { stdout } = await run(process.execPath, [join(app(), 'dist/main.js'), 'version'], { cwd: '/', env: {} });
    assert.equal(stdout, `portcullis v${packageJson.version}\n`);
  });

  test('serves with the development cluster', async () => {
    const server = await serve([], {}, join(app(), 'dist/main.js'));
    assert.equal((await fetch(`${server.probes}/readyz`)).status, 200);
    const { code, stderr } = await server.stop('SIGINT');
    assert.equal(code, 0, stderr);
  });
});
