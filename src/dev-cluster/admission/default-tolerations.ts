import { objectAt, objectsAt, textAt } from '../objects/read.ts';
import { isOnPods, type Plugin } from './plugin.ts';

const TAINTS = ['node.kubernetes.io/not-ready', 'node.kubernetes.io/unreachable'];
const SECONDS = 300;

/**
 * Lets pods stay for five minutes on a node that is not ready or not reachable, unless they say otherwise.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/plugin/pkg/admission/defaulttolerationseconds/admission.go
 */
export const defaultTolerations: Plugin = {
  admit(attributes) {
    if (!isOnPods(attributes) || !attributes.object || attributes.operation === 'DELETE') return undefined;
    const spec = objectAt(attributes.object, 'spec') as Record<string, unknown>;
    const given = objectsAt(spec, 'tolerations');
    const missing = TAINTS.filter(
      (taint) =>
        !given.some(
          (toleration) =>
            ['', taint].includes(textAt(toleration, 'key')) && ['', 'NoExecute'].includes(textAt(toleration, 'effect')),
        ),
    );
    if (missing.length === 0) return undefined;
    const added = missing.map((key) => ({
      key,
      operator: 'Exists',
      effect: 'NoExecute',
      tolerationSeconds: SECONDS,
    }));
    spec['tolerations'] = [...given, ...added];
    return undefined;
  },
};
