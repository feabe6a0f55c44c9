/**
 * Tests the commands in README.md and docs/. The program parses all invocations, and the code blocks are executed
 * against the development cluster, except for the commands in `SKIPPED`.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import type { CommandEntry } from '../../src/cli/command.ts';
import { COMMANDS } from '../../src/cli/program.ts';
import { hasKubectl } from '../support/kubectl.ts';
import { runProgram } from '../support/memory-io.ts';
import { type RunningServer, serve } from '../support/serve-process.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const FILES = await readdir(join(ROOT, 'docs'), { recursive: true });
/** Sorted by file name, because a page relies on the cluster state that earlier pages leave behind. */
const PAGES = FILES.filter((name) => name.endsWith('.md'))
  .toSorted((a, b) => (basename(a) < basename(b) ? -1 : 1))
  .map((name) => `docs/${name}`);
const DOCUMENTS = new Map(
  await Promise.all(
    ['README.md', ...PAGES].map(async (page) => {
      const text = await readFile(join(ROOT, page), 'utf8');
      return [page, text.replaceAll(/ *\\\n */g, ' ')] as const;
    }),
  ),
);

/** Patterns of commands that this test does not execute, with the reason. */
const SKIPPED: readonly (readonly [command: RegExp, reason: string])[] = [
  [
    /^(?:KUBEBUILDER_ASSETS=\S+ )?(?:npx|npm (?:ci|run bench|run screenshots|exec))/,
    'installs packages, measures for minutes, or runs other tests',
  ],
  [/^npm run release/, 'builds all files and pushes an image; test/release/release.test.ts'],
  [/^git clone .* peers|^mkdir peers|^\(cd peers/, 'downloads and builds other programs'],
  [/^docker |^kind load/, 'needs a container engine'],
  [/^helm /, 'needs a chart of the reader; test/e2e/helm-kustomize.test.ts'],
  [/^kubectl kustomize overlays/, 'needs an overlay of the reader; test/cli/commands/check-fix.test.ts'],
  [
    /^kubeadm |--as=system:node:/,
    'needs kube-apiserver with the authorization webhook; test/e2e/kubelet-authorizer.test.ts',
  ],
  [
    /component=webhooks'$/,
    'would replace the webhooks of all features, which no leader maintains; test/e2e/webhooks.test.ts',
  ],
  [/^gcloud /, 'needs an account with a cloud provider'],
  [/^oc get /, 'needs OpenShift'],
  [/^portcullis migrate /, 'needs policies of another system; test/cli/commands/migrate.test.ts'],
  [/^kubectl debug node/, 'the development cluster has no nodes'],
  [/enforce=privileged --overwrite$/, 'is for pods in the network of the host'],
  [/rollout status deployment| logs | get lease /, 'needs running pods'],
  [/^kubectl get (?:cluster)?reports/, 'needs the definitions of openreports.io; test/controllers/readiness.test.ts'],
  [/^kubectl explain/, 'the development cluster does not serve OpenAPI documents'],
  [/ -w$|^portcullis (?:serve|dashboard)|^npm start/, 'does not end'],
  [/^curl /, 'reads the probes of a process; test/server'],
  [/patch deployment portcullis/, 'needs the Deployment of an installation; test/e2e/reinstall.test.ts'],
  [/--cert-manager \|/, 'needs cert-manager; test/kubectl/kustomize.test.ts'],
  [/create token|token\.new/, 'the development cluster issues no tokens; test/e2e/process-credentials.test.ts'],
  [/KUBECTL_APPLYSET|create namespace portcullis$/, 'needs kube-apiserver; test/e2e/helm-kustomize.test.ts'],
  [/secret portcullis-serving-certificate/, 'needs a Secret; test/controllers/serving-certificate.test.ts'],
  [/ olm status$| get csv /, 'needs operators; test/cli/commands/olm-status.test.ts'],
  [
    /--without-server |--keep-policies$|^portcullis upgrade \| kubectl apply -f -$|^kubectl delete validatingadmissionpolicybindings/,
    'needs a cluster without a server; test/e2e/policies.test.ts',
  ],
  [
    /^portcullis exception |get podsecurityexception |^kubectl create -f exception\.yaml$/,
    'needs a workload that violates the level, and an approver; test/e2e/exceptions.test.ts',
  ],
  [/ViolationsDetected=False/, 'the examples violate the level; test/kubectl/ready.test.ts'],
  [/^kubectl create quota/, 'the development cluster has no quotas'],
  [/^kubectl apply -f bindings\.yaml$/, 'the plan of the development cluster has no bindings'],
  [/^portcullis .*--context /, 'needs many clusters; test/cli/commands/clusters.test.ts'],
  [/^for |^ |^done|^kubectl delete validating.*portcullis$/, 'test/kubectl/runbook.test.ts executes the commands'],
];

/** Pages whose code blocks other tests execute (test/e2e/uninstall.test.ts and test/cli/commands/uninstall.test.ts). */
const OTHER_TESTS: ReadonlySet<string> = new Set(['docs/how-to/uninstall.md']);

/** Pages that describe one cluster, in reading order. */
const FIVE_PAGES = ['install', 'what-breaks', 'fix', 'enforce', 'operate'].map(
  (name) => `docs/pod-security/${name}.md`,
);

/** Commands that prepare the cluster for a page. */
const PREPARATIONS: Readonly<Record<string, readonly string[]>> = {
  'docs/pod-security/install.md': [
    `kubectl patch portcullis cluster --type=merge -p '{"spec":{"scc":null}}'`,
    // The page installs Portcullis without the scc feature.
  ],
  'docs/how-to/scc.md': [
    'kubectl -n payments delete pod web',
    'kubectl -n shop create deployment server --image=nginx',
  ],
  'docs/how-to/olm.md': [`kubectl patch portcullis cluster --type=merge -p '{"spec":{"scc":{"mode":"off"}}}'`],
  'docs/how-to/upgrade.md': [`kubectl patch portcullis cluster --type=merge -p '{"spec":{"olm":null,"kubelet":null}}'`],
  'docs/how-to/rollout.md': ['kubectl create namespace openshift-example'],
  'docs/how-to/install.md': [
    'kubectl create namespace calico-system',
    `kubectl patch portcullis cluster --type=merge -p '{"spec":{"rollout":{"phase":"Disabled"},"scc":null}}'`,
  ],
};

/** Waits for the settings, because they take effect only after the response to a change. */
const WAIT_FOR_SETTINGS = `generation=$(kubectl get portcullis cluster -o jsonpath='{.metadata.generation}')
kubectl wait portcullis cluster --for=jsonpath='{.status.observedGeneration}'=$generation --timeout=30s
kubectl wait portcullis cluster --for=condition=Applied --timeout=30s`;

/** The development cluster reports SCC decisions even on pages that do not install SCCs. */
const REPORT_WARNING = /^Warning: SCC "privileged" would admit the pod only because .*\n/gm;

/** A command in a code block. If the command follows a prompt, its output may follow. */
interface Command {
  readonly text: string;
  readonly output?: string;
}

function findBlocks(page: string): readonly string[] {
  const blocks = (DOCUMENTS.get(page) ?? '').matchAll(/^( *)```(?:sh|console)\n([^]*?)^ *```/gm);
  return [...blocks].map(([, indent = '', block = '']) =>
    block.replaceAll(new RegExp(`^${indent}`, 'gm'), '').replaceAll('npm run -s portcullis --', 'portcullis'),
  );
}

function isSkipped(line: string): boolean {
  return SKIPPED.some(([command]) => command.test(line));
}

/** Returns the commands of a block. A block without prompts and without this program is a single script. */
function readCommands(block: string): readonly Command[] {
  if (block.startsWith('$ ')) {
    return block
      .split(/^\$ /m)
      .slice(1)
      .map((text) => {
        const end = text.indexOf('\n');
        const output = text.slice(end + 1);
        return { text: text.slice(0, end), ...(output === '' ? {} : { output }) };
      });
  }
  const executed = block.split('\n').filter((line) => !isSkipped(line.replace(/ *#.*/, '')));
  const isScript = !executed.some((line) => line.includes('portcullis '));
  return (isScript ? [executed.join('\n')] : executed).map((text) => ({ text })).filter(({ text }) => /\S/.test(text));
}

/** Exit codes of commands that report findings. */
const REPORTS = /^(?:check|explain|doctor|scc plan|scc review|rollout|audit|break-glass status)\b/;

interface Outcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

function splitWords(text: string): readonly string[] {
  return [...text.matchAll(/(?:'[^']*'|"[^"]*"|[^\s'"])+/g)].map(([word]) => word.replaceAll(/['"]/g, ''));
}

suite('the program parses its invocations in the documentation:', () => {
  /** Commands that only parse their arguments. */
  const parsing: readonly CommandEntry[] = COMMANDS.map((entry) => ({
    ...entry,
    load: async () => ({ command: { ...(await entry.load()).command, run: () => Promise.resolve(0) } }),
  }));
  const INVOCATION =
    /(?:^ *(?:\$ |run: |npx )?|[|;&(`] ?)(?:npm run -s portcullis --|kubectl (?=scc )|portcullis(?= \S)|.*\/app\/dist\/main\.js)((?: [^`\n|>;&#)]| \|(?! )|[^`\n|>;&#) ]|\\?\|(?=\w))*)(`?)/gm;

  /** Returns one invocation for each alternative in `on|off`. */
  function expandAlternatives(words: readonly string[]): readonly (readonly string[])[] {
    return words.reduce<readonly (readonly string[])[]>(
      (lists, word) => word.split(/\\?\|/).flatMap((one) => lists.map((list) => [...list, one])),
      [[]],
    );
  }

  for (const [page, text] of DOCUMENTS) {
    test(page, async () => {
      // A table escapes the pipe between commands.
      for (const [, rest = '', inline] of text.replaceAll(' \\| ', ' | ').matchAll(INVOCATION)) {
        if (/^ (?:COMMAND|…)|\[options\]/.test(rest)) continue;
        for (const words of expandAlternatives(splitWords(rest))) {
          const { code, stderr } = await runProgram(words, { commands: parsing });
          // Text may contain a command without its operands, and an option without a value or with a placeholder.
          const isMention =
            inline !== '' &&
            /missing required argument|argument missing| is required|invalid argument "[A-Z]+"|^Usage/.test(stderr);
          assert.ok(code === 0 || isMention, `portcullis ${words.join(' ')}\n${stderr}`);
        }
      }
    });
  }
});

/** Executes pages in order against a development cluster with the objects of a folder. */
function executePages(pages: readonly string[], manifests: string): void {
  let server: RunningServer;
  let folder = '';
  before(async () => {
    server = await serve(['--dev-cluster', `--manifests=${join(ROOT, manifests)}`]);
    folder = await mkdtemp(join(tmpdir(), 'portcullis-docs-'));
    const files = { examples: 'examples', 'webhook-config': 'webhook-config', deploy: 'examples/check' };
    const workloads = { 'pod.yaml': 'examples/scc/root.yaml', 'deployment.yaml': 'examples/pods/deployment.yaml' };
    for (const [name, target] of Object.entries({ ...files, ...workloads })) {
      await symlink(join(ROOT, target), join(folder, name));
    }
    process.chdir(folder);
  });
  after(async () => {
    process.chdir(ROOT);
    await rm(folder, { recursive: true });
    await server.stop();
  });

  /** `kubectl edit` changes nothing with this editor. */
  const variables = () => ({ KUBECONFIG: server.kubeconfig, KUBE_EDITOR: 'true' });

  function runShell(script: string, stdin = ''): Promise<Outcome> {
    return new Promise((done) => {
      const options = { env: { ...process.env, ...variables() }, timeout: 60_000 };
      const child = execFile('sh', ['-ec', `sleep() { :; }\n${script}`], options, (_error, stdout, stderr) =>
        done({ code: child.exitCode ?? -1, stdout, stderr }),
      );
      child.stdin?.on('error', () => undefined).end(stdin);
    });
  }

  /**
   * Runs a shell line such as `COMMAND | portcullis … | COMMAND` or `portcullis … > FILE`. The program runs in this
   * process.
   */
  async function runLine(line: string, env: Readonly<Record<string, string>>): Promise<Outcome> {
    const [, source, args = '', file, sink] =
      /^(?:(.*?) \| )?portcullis ([^|>#]*)(?:> (\S+)|\| (.*))?/.exec(line) ?? [];
    if (args === '') return await runShell(line);
    const input = source === undefined ? undefined : await runShell(source);
    if (input && input.code !== 0) return input;
    // The Service of the manifests has no endpoints in the development cluster.
    const words = args.trim() === 'break-glass off' ? ['break-glass', 'off', '--force'] : splitWords(args);
    const outcome = await runProgram(words, { env, stdin: input?.stdout ?? '' });
    if (file !== undefined) await writeFile(file, outcome.stdout);
    const hasFailed = outcome.code !== 0 && outcome.stdout === '';
    return sink === undefined || hasFailed ? outcome : await runShell(sink, outcome.stdout);
  }

  /** Returns the text without ages and times, which differ between runs, and with single spaces between columns. */
  const withoutTimes = (text: string): string =>
    text
      .replaceAll(/\b\d+s\b/g, 'AGE')
      .replaceAll(/\d{4}-\d\d-\d\dT[\d:]+Z/g, 'TIME')
      // kubectl 1.34 and newer print the namespace of a deleted object.
      .replaceAll(/ deleted from [\w-]+ namespace$/gm, ' deleted')
      .replaceAll(/(?<=\S) +/g, ' ')
      .replaceAll(/ $/gm, '')
      .trimEnd();

  /** In documented output, `…` or a line `...` replaces text. */
  function assertOutput(actual: string, documented: string): void {
    const expected = documented.replaceAll(/^\.\.\.$/gm, '…');
    if (!expected.includes('…')) {
      assert.equal(withoutTimes(actual), withoutTimes(expected));
      return;
    }
    let rest = withoutTimes(actual);
    for (const part of withoutTimes(expected).split(/\s*…\s*/)) {
      const index = rest.indexOf(part);
      assert.ok(index >= 0, `${part}\n${actual}`);
      rest = rest.slice(index + part.length);
    }
  }

  function hasOutput(actual: string, documented: string): boolean {
    try {
      assertOutput(actual, documented);
      return true;
    } catch {
      return false;
    }
  }

  async function checkCommands(block: string): Promise<void> {
    // Without a kubeconfig, commands read only files.
    const usesCluster = !/^\$ portcullis .*-f /.test(block);
    let code: number | undefined;
    for (const { text, output } of readCommands(block)) {
      if (/^export KUBECONFIG/.test(text) || isSkipped(text)) continue;
      if (text === 'echo $?') {
        assert.equal(output, `${code}\n`);
        continue;
      }
      const run = () => runLine(text, usesCluster ? variables() : {});
      let outcome = await run();
      // The leader evaluates the cluster, and raises the default level, after the response to a change.
      const deadlineMs = performance.now() + (output?.startsWith('State ') ? 90_000 : 0);
      while (performance.now() < deadlineMs && !hasOutput(outcome.stdout, output ?? '')) {
        await setTimeout(250);
        outcome = await run();
      }
      code = outcome.code;
      if (text.startsWith('kubectl patch portcullis ')) assert.equal((await runShell(WAIT_FOR_SETTINGS)).code, 0);
      if (output === undefined) {
        const isReport = REPORTS.test(/portcullis (.*)/.exec(text)?.[1] ?? '');
        assert.ok(code === 0 || (isReport && code === 1), `${text}\n${outcome.stdout}${outcome.stderr}`);
      } else assertOutput(`${outcome.stderr.replaceAll(REPORT_WARNING, '')}${outcome.stdout}`, output);
    }
  }

  for (const page of pages) {
    suite(page, () => {
      before(async () => {
        for (const line of PREPARATIONS[page] ?? []) assert.equal((await runLine(line, variables())).code, 0, line);
      });
      for (const block of findBlocks(page)) test(block, () => checkCommands(block));
    });
  }
}

suite('the code blocks of the documentation run without errors', { skip: !hasKubectl && 'there is no kubectl' }, () => {
  suite('on the five pages about Pod Security', () => executePages(FIVE_PAGES, 'test/kubectl/pod-security'));

  suite('on all other pages', () => {
    // The first pages show the output for the initial objects.
    const first = [
      'docs/tutorials/first-five-minutes.md',
      'README.md',
      'docs/how-to/scc.md',
      'docs/how-to/enforce-sccs.md',
    ];
    const pages = new Set([...first, ...DOCUMENTS.keys()]);
    const executed = [...pages].filter((page) => !OTHER_TESTS.has(page) && !FIVE_PAGES.includes(page));
    executePages(executed, 'examples/cluster');
  });

  test('each reason to skip a command still applies to a command', () => {
    const lines = [...DOCUMENTS.keys()]
      .flatMap((page) => findBlocks(page))
      .join('')
      .split('\n');
    for (const [command, reason] of SKIPPED)
      assert.ok(
        lines.some((line) => command.test(line)),
        reason,
      );
  });
});
