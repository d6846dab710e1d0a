// Spends through the proxy with an unmodified stripe-node: host and key are all that it is given.
import Stripe from "stripe";

const [host, port, key] = process.argv.slice(2);
const stripe = new Stripe(key, { host, port, protocol: "http", maxNetworkRetries: 1 });

async function spend(amount) {
  try {
    const made = await stripe.paymentIntents.create({
      amount,
      currency: "usd",
      customer: "cus_1",
      automatic_payment_methods: { enabled: true, allow_redirects: "never" },
    });
    const paid = await stripe.paymentIntents.confirm(made.id, {
      off_session: true,
      payment_method: "pm_card_visa",
    });
    return { status: paid.status };
  } catch (error) {
    return { type: error.type, code: error.code, message: error.message };
  }
}

console.log(JSON.stringify([await spend(1000), await spend(1001), await spend(1000)]));
