/** Tests rules for the Dockerfile. release.test.ts executes its stages. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { describe, test } from 'node:test';
import { PORTS } from '../../src/install/deployment.ts';
import {
  type Instruction,
  instructions as all,
  parseCopy,
  parseExecForm,
  readArg,
  readDockerfile,
  type Stage,
} from '../support/dockerfile.ts';

interface Package {
  readonly version: string;
  readonly description: string;
  readonly license: string;
  readonly devDependencies: Readonly<Record<string, string>>;
}

const dockerfile = readDockerfile(await readFile('Dockerfile', 'utf8'));
const packageJson = JSON.parse(await readFile('package.json', 'utf8')) as Package;
const ignored = (await readFile('.dockerignore', 'utf8')).trim().split('\n');
/** Returns the files in the build context. */
const context = ignored.slice(1).map((line) => line.slice(1));
const [build, image] = dockerfile.stages as [Stage, Stage];

/** Returns the only instruction with the given name. */
function parseOnly<T>(name: string, stage: Stage, read: (instruction: Instruction) => T): T {
  const [one, ...others] = all(name, stage);
  assert.ok(one && others.length === 0, `one ${name}`);
  return read(one);
}

describe('the Dockerfile', () => {
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

  test('builds on the build platform even for other target platforms', () => {
    assert.equal(build.from.flags.get('platform'), '$BUILDPLATFORM');
    assert.equal(image.from.flags.get('platform'), undefined);
    assert.deepEqual(all('RUN', image), []);
  });

  test('installs locked packages without their scripts', () => {
    const commands = all('RUN', build).map(({ text }) => text);
    assert.deepEqual(commands, ['npm ci --ignore-scripts --no-audit --no-fund', 'npm run build']);
  });

  test('runs as a non-root user without a shell', () => {
    assert.equal(
      parseOnly('USER', image, ({ text }) => text),
      '65532:65532',
    );
    const [program = '', ...flags] = parseOnly('ENTRYPOINT', image, parseExecForm) ?? [];
    assert.match(program, /^\//);
    const limits = ['--max-old-space-size-percentage=45', '--max-semi-space-size=4'];
    assert.deepEqual(flags, [...limits, '/app/dist/main.js']);
    assert.notEqual(parseOnly('CMD', image, parseExecForm), undefined);
    assert.deepEqual(
      image.instructions.slice(-5).map(({ name }) => name),
      ['USER', 'EXPOSE', 'ENV', 'ENTRYPOINT', 'CMD'],
    );
  });

  test('has the labels and arguments of the release', () => {
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

  test('uses only known instructions and copies only files from the context', () => {
    const known = new Set(['WORKDIR', 'COPY', 'RUN', 'ARG', 'LABEL', 'USER', 'EXPOSE', 'ENV', 'ENTRYPOINT', 'CMD']);
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
