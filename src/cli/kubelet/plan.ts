import { hasFinished } from '../../kube/pod.ts';
import { printCount } from '../../kube/text.ts';
import { compareMinimums } from '../../policy/kubelet/index.ts';
import { defineCommand, EXIT } from '../command.ts';
import { option, UsageError } from '../options.ts';
import { assumptionBlocks, printReport } from '../output/print.ts';
import { gatherKubelets, isBelow, kubeletOptions, minimumVersion, printNodes, reportNodes } from './facts.ts';

const DETAILS = `
Lists the nodes that would lose access to the API server with a minimum kubelet version, and the number of
pods on them. Where API servers call the authorization webhook, it denies requests from nodes with an older
kubelet until the kubelet is upgraded. With spec.kubelet.compatibility: openshift in the settings, even an
upgraded kubelet cannot report its version, so upgrade kubelets before you raise the minimum.

If nodes would lose access, the exit code is 1. Upgrade or remove these nodes first.

Examples:
  portcullis kubelet plan --minimum 1.33.0
  portcullis kubelet plan --minimum 1.33.0 -o json
  portcullis kubelet plan --minimum 1.33.0 -f nodes.yaml
`;

/** Effects of enforcement on nodes whose kubelet is below the minimum. */
const EFFECTS = [
  'Leases are not renewed, so the node becomes NotReady and its pods are evicted.',
  'Pods cannot be read, so no pod starts on the node, and the status of its pods is not updated.',
  'Secrets and ConfigMaps cannot be read, so running pods keep their old values.',
  'Certificates are not renewed, and service account tokens are not issued.',
];

const CONTROL_PLANE = ['control-plane', 'master'];

export const command = defineCommand({
  details: DETAILS,
  options: {
    ...kubeletOptions,
    minimum: option('VERSION', minimumVersion, undefined, { help: 'Minimum version to evaluate, such as 1.33.0' }),
  },
  async run({ minimum, ...options }, _operands, io) {
    if (minimum === undefined) throw new UsageError('--minimum is required: a Kubernetes version such as 1.33.0');
    const facts = await gatherKubelets(options, io, ['Node', 'Pod']);
    const { assumptions, minimums, store } = facts;
    const pods = Map.groupBy(
      store.list('Pod').filter((pod) => !hasFinished(pod)),
      ({ spec }) => spec?.nodeName,
    );
    const nodes = reportNodes(facts, minimum).map((node) => ({ ...node, pods: pods.get(node.name)?.length ?? 0 }));
    const lost = nodes.filter(isBelow);
    const lostPods = lost.reduce((sum, node) => sum + node.pods, 0);
    const controlPlane = lost.filter(({ roles }) => roles.some((role) => CONTROL_PLANE.includes(role)));
    const notes = [
      ...(controlPlane.length === 0
        ? []
        : [`Control plane nodes among them: ${controlPlane.map(({ name }) => name).join(', ')}.`]),
      ...(compareMinimums(minimum.text, minimums.inForce) < 0
        ? [`The minimum ${minimums.inForce} is in force. ${minimum.text} is lower and permits older kubelets.`]
        : []),
    ];
    const effects = lost.length === 0 ? [] : EFFECTS;
    const summary = { nodes: nodes.length, lost: lost.length, pods: lostPods };
    const data = { minimum: minimum.text, inForce: minimums.inForce, summary, nodes, effects, notes, assumptions };
    printReport(io, options.output, data, (style) => [
      ...(nodes.length === 0 ? [] : [printNodes(nodes, options, style, { PODS: ({ pods }) => String(pods) })]),
      ...(effects.length === 0
        ? []
        : [`On nodes below the minimum:\n${effects.map((line) => `  ${line}\n`).join('')}`]),
      ...notes.map((note) => `${note}\n`),
      ...assumptionBlocks(assumptions),
      `${style('bold', `${lost.length} of ${printCount(nodes.length, 'node')} (${printCount(lostPods, 'pod')}) would lose access with the minimum ${minimum.text}`)}\n`,
    ]);
    return lost.length === 0 ? EXIT.passed : EXIT.violations;
  },
});
