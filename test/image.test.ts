/** The image without a container engine: rules for its Dockerfile, and its stages, done by hand in folders. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, readdir, readFile, realpath, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { PORTS } from '../src/install/deployment.ts';
import { copyOf, execFormOf, readArg, readDockerfile, type Instruction, type Stage } from './support/dockerfile.ts';
import { serve } from './support/serve-process.ts';

const run = promisify(execFile);

interface Package {
  readonly version: string;
  readonly description: string;
  readonly license: string;
  readonly devDependencies: Readonly<Record<string, string>>;
}

const dockerfile = readDockerfile(await readFile('Dockerfile', 'utf8'));
const packageJson = JSON.parse(await readFile('package.json', 'utf8')) as Package;
const ignored = (await readFile('.dockerignore', 'utf8')).trim().split('\n');
/** What a build gets to see of this folder. */
const context = ignored.slice(1).map((line) => line.slice(1));
const [build, image] = dockerfile.stages as [Stage, Stage];

function all(name: string, { instructions }: Stage): readonly Instruction[] {
  return instructions.filter((one) => one.name === name);
}

/** The one instruction of that name, read by the function. */
function the<T>(name: string, stage: Stage, read: (instruction: Instruction) => T): T {
  const [one, ...others] = all(name, stage);
  assert.ok(one && others.length === 0, `one ${name}`);
  return read(one);
}

describe('Dockerfile', () => {
  test('builds in one stage and runs in another, from images that builders can name', () => {
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

  test('builds once for every platform, and runs nothing where it would take emulation', () => {
    assert.equal(build.from.flags.get('platform'), '$BUILDPLATFORM');
    assert.equal(image.from.flags.get('platform'), undefined);
    assert.deepEqual(all('RUN', image), []);
  });

  test('takes packages as locked, and lets none run code', () => {
    const commands = all('RUN', build).map(({ text }) => text);
    assert.deepEqual(commands, ['npm ci --ignore-scripts --no-audit --no-fund', 'npm run build']);
  });

  test('runs as a user that is not root, without a shell', () => {
    assert.equal(
      the('USER', image, ({ text }) => text),
      '65532:65532',
    );
    const [program = ''] = the('ENTRYPOINT', image, execFormOf) ?? [];
    assert.match(program, /^\//);
    assert.notEqual(the('CMD', image, execFormOf), undefined);
    // It comes last: nothing is changed for another user after it.
    assert.deepEqual(
      image.instructions.slice(-4).map(({ name }) => name),
      ['USER', 'EXPOSE', 'ENTRYPOINT', 'CMD'],
    );
  });

  test('says what it is, and nothing that changes by itself', () => {
    const labels = the('LABEL', image, ({ text }) =>
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

  test('has the ports of the manifests', () => {
    assert.equal(
      the('EXPOSE', image, ({ text }) => text),
      `${PORTS.reviews.port} ${PORTS.probes.port}`,
    );
  });

  test('copies what the context has, by name; adds, keeps and asks for nothing else', () => {
    const known = new Set(['WORKDIR', 'COPY', 'RUN', 'ARG', 'LABEL', 'USER', 'EXPOSE', 'ENTRYPOINT', 'CMD']);
    for (const stage of dockerfile.stages) {
      for (const { name } of stage.instructions) assert.ok(known.has(name), name);
      for (const copy of all('COPY', stage)) {
        const from = copy.flags.get('from');
        if (from !== undefined) assert.equal(from, build.as);
        else for (const source of copyOf(copy).sources) assert.ok(context.includes(source), source);
      }
    }
    assert.equal(ignored[0], '*');
    assert.ok(ignored.slice(1).every((line) => /^![\w./-]+$/.test(line)));
  });
});

describe('what the image holds', () => {
  let root = '';
  const sources = (): string => join(root, 'src');
  const app = (): string => join(root, 'app');

  /** Does a `COPY` between folders. */
  async function copy(one: Instruction, into: string): Promise<void> {
    const { sources: named, target } = copyOf(one);
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
    // In place of npm ci, which needs the network.
    await symlink(resolve('node_modules'), join(sources(), 'node_modules'));
    await run('npm', ['run', 'build'], { cwd: sources() });
    await rm(join(sources(), 'node_modules'));
    for (const one of all('COPY', image)) await copy(one, app());
    await rm(sources(), { recursive: true });
  });
  after(() => rm(root, { recursive: true }));

  test('is the program, and licenses', async () => {
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
