/**
 * Starts a control plane and replicas for manual tests of an installation with all features:
 *
 *     KUBEBUILDER_ASSETS=<folder with etcd and kube-apiserver> npm run control-plane -- --replicas=3
 *
 * Without the variable it uses the development cluster. All servers listen on 127.0.0.1. Ctrl-C stops them.
 */
import { once } from 'node:events';
import { parseArgs } from 'node:util';
import { ALL_FEATURES, parseFeatures } from '../src/install/settings.ts';
import { createSystem, startControlPlane } from '../test/support/control-plane/index.ts';
import { localObjects } from '../test/support/control-plane/installation.ts';

const USAGE = `Usage: npm run control-plane -- [--replicas=N] [--port=PORT] [--pod-security] [--bare] [-- FLAG OF serve...]

  --replicas=N     number of replicas; default 3
  --port=PORT      port for reviews on 127.0.0.1; default 8443, as in portcullis install --profile=local
  --pod-security   enable the PodSecurity plugin of kube-apiserver
  --bare           install nothing; the replicas wait for the output of portcullis install --profile=local, and the
                   output contains the command. For SCCs, add -- --features=rollout,scc
`;

/** Port in the output of `portcullis install --profile=local`. */
const DEFAULT_PORT = 8443;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    replicas: { type: 'string', default: '3' },
    port: { type: 'string', default: String(DEFAULT_PORT) },
    'pod-security': { type: 'boolean', default: false },
    bare: { type: 'boolean', default: false },
    help: { type: 'boolean', short: 'h', default: false },
  },
});

const [replicas, port] = [Number(values.replicas), Number(values.port)];
if (values.help || !Number.isInteger(replicas) || replicas < 0 || !Number.isInteger(port)) {
  process.stdout.write(USAGE);
} else {
  const interrupted = Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')]);
  const plane = await startControlPlane(values['pod-security'] ? { podSecurityPlugin: 'on' } : {});
  const named = positionals.flatMap((flag) => (flag.startsWith('--features=') ? flag.slice('--features='.length) : []));
  const features = values.bare ? parseFeatures(named) : ALL_FEATURES;
  const objectsFor = (reviewPort: number) => localObjects(reviewPort, { features });
  const system = await createSystem(plane, { port, args: positionals, objectsFor });
  try {
    const kubeconfig = await plane.kubeconfigFor('admin', ['system:masters']);
    if (!values.bare) await system.install();
    await (values.bare ? system.start(replicas) : system.add(replicas));
    process.stdout.write(formatGreeting(kubeconfig));
    await interrupted;
  } finally {
    process.stdout.write('stopping\n');
    await system.stop();
    await plane.stop();
  }

  /** Returns the command that installs the features of the replicas, and replaces the port in its output. */
  function installCommand(): string {
    const options = [
      ...(features.rollout ? [] : ['--rollout=false']),
      ...(['scc', 'kubelet', 'olm'] as const).flatMap((name) => (features[name] ? [`--${name}`] : [])),
    ];
    const install = ['npm run -s portcullis -- install --profile=local', ...options].join(' ');
    const address = `127.0.0.1:${system.port}`;
    const replace = system.port === DEFAULT_PORT ? '' : ` | sed 's/127.0.0.1:${DEFAULT_PORT}/${address}/'`;
    return `${install}${replace} | kubectl apply --server-side -f -`;
  }

  function formatGreeting(kubeconfig: string): string {
    const next = values.bare ? installCommand() : 'kubectl get namespaces';
    const lines = system.replicas.map(
      ({ name, pid, port: replicaPort, probes }) =>
        `  ${name}  pid ${pid}  https://127.0.0.1:${replicaPort}  ${probes}/readyz\n`,
    );
    return `${plane.title} at ${plane.server}; reviews go to https://127.0.0.1:${system.port}\n${lines.join('')}\n  export KUBECONFIG=${kubeconfig}\n  ${next}\n\nCtrl-C stops all processes.\n`;
  }
}
