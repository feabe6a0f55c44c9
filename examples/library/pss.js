import { evaluatePod } from 'portcullis/pss';

const pod = { spec: { hostNetwork: true, containers: [{ name: 'web', image: 'nginx' }] } };
const { allowed, detail } = evaluatePod(pod, { level: 'baseline', version: 'latest' });
console.log(allowed, detail);
// false host namespaces (hostNetwork=true)
