/**
 * Starts a control plane and replicas, to try an installation by hand:
 *
 *     KUBEBUILDER_ASSETS=<folder with etcd and kube-apiserver> npm run control-plane -- --replicas=3
 *
 * Without that variable the development cluster stands in for them. All of it listens on 127.0.0.1 and ends with Ctrl-C.
 */
import { once } from 'node:events';
import { parseArgs } from 'node:util';
import { createSystem, startControlPlane } from '../test/support/control-plane/index.ts';

const USAGE = `Usage: npm run control-plane -- [--replicas=N] [--port=PORT] [--pod-security] [--bare] [-- FLAG OF serve...]

  --replicas=N     how many replicas answer reviews; default 3
  --port=PORT      where reviews go, on 127.0.0.1; default 8443, which webhook-config/overlays/local has, too
  --pod-security   leave the plugin PodSecurity of kube-apiserver on
  --bare           install nothing: the replicas wait for kubectl apply -k webhook-config/overlays/local
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
  const system = await createSystem(plane, { port, args: positionals });
  try {
    const kubeconfig = await plane.kubeconfigFor('admin', ['system:masters']);
    if (!values.bare) await system.install();
    await (values.bare ? system.start(replicas) : system.scale(replicas));
    process.stdout.write(greeting(kubeconfig));
    await interrupted;
  } finally {
    process.stdout.write('stopping\n');
    await system.stop();
    await plane.stop();
  }

  function greeting(kubeconfig: string): string {
    const next = values.bare ? 'kubectl apply -k webhook-config/overlays/local' : 'kubectl get namespaces';
    const lines = system.replicas.map(
      ({ name, pid, port: own, probes }) => `  ${name}  pid ${pid}  https://127.0.0.1:${own}  ${probes}/readyz\n`,
    );
    return `${plane.title} at ${plane.server}; reviews go to https://127.0.0.1:${system.port}\n${lines.join('')}\n  export KUBECONFIG=${kubeconfig}\n  ${next}\n\nCtrl-C ends it all.\n`;
  }
}
