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
  --bare           install nothing; the replicas wait for the output of portcullis install --profile=local. Add
                   -- --features=scc for portcullis install --profile=local --scc
`;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    replicas: { type: 'string', default: '3' },
    port: { type: 'string', default: '8443' },
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
  const features = values.bare ? parseFeatures([]) : ALL_FEATURES;
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

  function formatGreeting(kubeconfig: string): string {
    const next = values.bare
      ? 'npm run -s portcullis -- install --profile=local | kubectl apply --server-side -f -'
      : 'kubectl get namespaces';
    const lines = system.replicas.map(
      ({ name, pid, port: replicaPort, probes }) =>
        `  ${name}  pid ${pid}  https://127.0.0.1:${replicaPort}  ${probes}/readyz\n`,
    );
    return `${plane.title} at ${plane.server}; reviews go to https://127.0.0.1:${system.port}\n${lines.join('')}\n  export KUBECONFIG=${kubeconfig}\n  ${next}\n\nCtrl-C stops all processes.\n`;
  }
}
